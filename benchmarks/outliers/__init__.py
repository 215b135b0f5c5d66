"""Outlier detection on tables: the default of this package against common detectors.

`python -m benchmarks outliers FOLDER` runs every method on every `*.npz` of a folder. A file has
the arrays `train` (normal rows), `test`, `label` (1 for an anomaly) and `names` (of the columns).
"""
