"""Benchmarks: costs of training steps, derivatives and operators, as ratios within one run."""
