"""The fuzzer of tests/nightly/fuzz for images, data sets and runs."""
