"""A fuzzer of every file reader. Run with `python -m tests.fuzz`, or `make fuzz`."""
