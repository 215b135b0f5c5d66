"""Faults of runs and hostile files of the reproduction. `make nightly` runs these tests."""
