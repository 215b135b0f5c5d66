"""Time and memory of a step of the kernel families of Table 1."""

from ...tables import table1
from .step_ratios import Comparison, PublishedSizes

_METHODS = ("SSM", "SSMVR", "FD-SSM", "FD-SSM-all", "Taylor-SSM")


def _comparison(data: str) -> Comparison:
    names = [f"{data} {method}" for method in _METHODS]
    base = f"{data} SSM"
    return Comparison(
        tuple(recipe for recipe in table1.PAPER if recipe.name in names),
        (*((name, base) for name in names[1:]), (f"{data} FD-SSM-all", f"{data} Taylor-SSM")),
    )


CPU = PublishedSizes(tuple(map(_comparison, ("Parkinsons", "RedWine", "WhiteWine"))), steps=40)
"""The published batch of 200."""

PAPER = CPU
"""The same."""
