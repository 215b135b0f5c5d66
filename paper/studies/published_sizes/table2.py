"""Time and memory of a step of the energy-based models of Table 2."""

from dataclasses import replace

from fdsm.derivatives import Taylor
from fdsm.objectives import SSM
from fdsm.projections import Sphere

from ...tables import table2
from .step_ratios import Comparison, PublishedSizes

_ROWS = {recipe.name: recipe for recipe in table2.PAPER}
_TAYLOR = "Taylor-SSM, one direction"

CPU = PublishedSizes(
    (
        Comparison(
            tuple(_ROWS[name] for name in ("DSM", "FD-DSM", "Taylor-DSM")),
            (("FD-DSM", "DSM"), ("Taylor-DSM", "DSM")),
        ),
        Comparison(
            (
                *(_ROWS[name] for name in ("SSM", "FD-SSM")),
                replace(_ROWS["Taylor-SSM"], name=_TAYLOR, objective=SSM(Taylor(), Sphere(0.05))),
            ),
            (("FD-SSM", "SSM"), (_TAYLOR, "SSM")),
        ),
    ),
    steps=2,
)
"""The published batch of 64. Half an hour on one core, and up to 10 GB."""

PAPER = CPU
"""The same."""
