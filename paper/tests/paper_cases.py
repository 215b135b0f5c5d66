"""A table of two recipes that train in a moment."""

from dataclasses import replace

from paper.recipes import EBM
from paper.report import RowInfo
from paper.targets import TableTarget
from paper.tests.recipes.recipe_cases import tiny

TINY_ROWS = (
    replace(tiny, name="a", provenance="A test."),
    replace(tiny, name="b", provenance="A test.", sm_eval_rows=5),
)
TINY = TableTarget(
    "tiny",
    "Two tiny models",
    ("toy_densities",),
    {"a": RowInfo("a"), "b": RowInfo("a")},
    {"cpu": 2, "paper": 1},
)
"""The recipes of its module are replaced by `TINY_ROWS` in the fixture `tiny_table`."""


def with_batch(row: EBM, batch: int) -> EBM:
    """Return a recipe with another batch size."""
    return replace(row, plan=replace(row.plan, batch=batch))
