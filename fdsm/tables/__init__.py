"""Tables: a density of the rows, outlier scores with reasons, and samples."""

from typing import TYPE_CHECKING

from ..extras import name_missing_extra

if TYPE_CHECKING:
    from .estimator import ScoreMatchingDensity

with name_missing_extra("fdsm.tables"):
    from .ensemble import choose_objective
    from .errors import DataError
    from .model import ModelError, TableModel
    from .outliers import Reason
    from .scoring import ScoredTable
    from .stream import score_arriving

load = TableModel.load

__all__ = [
    "DataError",
    "ModelError",
    "Reason",
    "ScoreMatchingDensity",
    "ScoredTable",
    "TableModel",
    "choose_objective",
    "load",
    "score_arriving",
]


def __getattr__(name: str) -> object:
    """Import `ScoreMatchingDensity` when it is used: scikit-learn takes a second to import."""
    if name != "ScoreMatchingDensity":
        raise AttributeError(f"module 'fdsm.tables' has no attribute {name!r}")
    with name_missing_extra(name):
        from .estimator import ScoreMatchingDensity
    return ScoreMatchingDensity
