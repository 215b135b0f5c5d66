"""Outlier scores with calibrated p-values and reasons."""

from .calibration import Calibration
from .detector import OutlierDetector
from .false_discovery import benjamini_hochberg
from .known_values import KnownValues
from .neighbors import Neighbors
from .reasons import Reason

__all__ = [
    "Calibration",
    "KnownValues",
    "Neighbors",
    "OutlierDetector",
    "Reason",
    "benjamini_hochberg",
]
