"""Tests that take minutes or inject rare faults. `make nightly` runs them."""
