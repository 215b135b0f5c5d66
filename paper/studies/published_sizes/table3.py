"""Time and memory of a step of the flows of Table 3."""

from dataclasses import replace

from fdsm.derivatives import Taylor
from fdsm.objectives import SSM
from fdsm.projections import Sphere

from ...tables import table3
from .step_ratios import Comparison, PublishedSizes

_ROWS = {recipe.name: recipe for recipe in table3.PAPER}
_TAYLOR = "Taylor-SSM, one direction"

CPU = PublishedSizes(
    (
        Comparison(
            (
                *(_ROWS[name] for name in ("SSM", "SSMVR", "FD-SSM", "MLE")),
                replace(_ROWS["Taylor-SSM"], name=_TAYLOR, objective=SSM(Taylor(), Sphere(0.1))),
            ),
            (("SSMVR", "SSM"), ("FD-SSM", "SSM"), ("MLE", "SSM"), (_TAYLOR, "SSM")),
        ),
    ),
    steps=10,
)
"""The published batch of 128."""

PAPER = CPU
"""The same."""
