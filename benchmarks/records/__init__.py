"""Results of benchmarks: files, comparison with earlier ones, tables, plots and a page."""

from .check import Slower
from .curves import Curve, Trainings
from .record import Case, Cost, Ratio, Record

__all__ = ["Case", "Cost", "Curve", "Ratio", "Record", "Slower", "Trainings"]
