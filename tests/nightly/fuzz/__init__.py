"""A fuzzer of every file reader. Run with `python -m tests.nightly.fuzz`."""
