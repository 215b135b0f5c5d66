"""Outlier scores with calibrated p-values and reasons."""

from .calibration import Calibration
from .detector import OutlierDetector, Scores
from .false_discovery import benjamini_hochberg
from .neighbors import Neighbors
from .reasons import Reason

__all__ = [
    "Calibration",
    "Neighbors",
    "OutlierDetector",
    "Reason",
    "Scores",
    "benjamini_hochberg",
]
