"""Tables: a density of the rows, outlier scores with reasons, and samples."""

from ..extras import name_missing_extra

with name_missing_extra("fdsm.tables"):
    from .ensemble import choose_objective
    from .errors import DataError
    from .estimator import ScoreMatchingDensity
    from .model import ModelError, TableModel
    from .outliers import Reason
    from .scoring import ScoredTable

__all__ = [
    "DataError",
    "ModelError",
    "Reason",
    "ScoreMatchingDensity",
    "ScoredTable",
    "TableModel",
    "choose_objective",
]
