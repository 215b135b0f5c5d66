"""Ratios of times, measured interleaved in one run; never seconds."""
