"""Time and memory of a step of the noise-conditional score networks of Table 5."""

from dataclasses import replace

from fdsm.derivatives import Taylor
from fdsm.objectives import SSMVR, Annealed
from fdsm.projections import Sphere

from ...data import CIFAR10
from ...tables import table5
from .step_ratios import Comparison, PublishedSizes

_ROWS = {recipe.name: recipe for recipe in table5.PAPER}
_EXACT = _ROWS["SSMVR"]

_COMPARISON = Comparison(
    (
        _EXACT,
        _ROWS["FD-SSMVR"],
        replace(
            _EXACT,
            name="Taylor-SSMVR",
            objective=Annealed(SSMVR(Taylor(), Sphere(0.1)), _EXACT.levels),
        ),
        _ROWS["DSM"],
    ),
    (("FD-SSMVR", "SSMVR"), ("Taylor-SSMVR", "SSMVR"), ("DSM", "SSMVR")),
)

CPU = PublishedSizes((replace(_COMPARISON, batch=16, data=CIFAR10((1,))),), steps=2)
"""The published network with an eighth of the published batch, on the first batch of CIFAR-10."""

PAPER = PublishedSizes((_COMPARISON,), steps=20)
"""The published batch of 128 needs about 30 GB."""
