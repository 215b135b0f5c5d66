"""Benchmarks. Times are ratios of interleaved runs."""
