"""Published data sets and synthetic densities."""
