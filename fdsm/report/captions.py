"""What is said below a table: what its numbers are, and what their errors are of."""

import math
from collections.abc import Collection, Sequence

from .aggregate import over_seeds, own_error
from .baselines import baselines
from .format import number
from .labels import BYTES, MEMORY_RATIO, PACE, RATIO, title
from .model import Group

OWN = "†"
"""Marks an error that is of one measurement, not over seeds."""


def caption(groups: Sequence[Group], keys: Collection[str]) -> str:
    """Return what to say below a table.

    Args:
        groups: The groups in its rows.
        keys: The keys of the columns that are shown.

    Returns:
        Some sentences.
    """
    names = [key.removeprefix("metric ") for key in keys if key.startswith("metric ")]
    counts = [over_seeds(group, name) for group in groups for name in names]
    parts = []
    if any(count > 1 and mean.error is not None for mean, count in counts):
        parts += ["Means over seeds ± standard error over seeds.", _own(groups, names)]
    if any(count == 1 and mean.error is not None for mean, count in counts):
        parts.append(
            f"{OWN} One seed: ± is the standard error of its own measurement, "
            "without the variation between seeds."
        )
    if any({run.finished for run in group.runs} == {True, False} for group in groups):
        parts.append("Means leave out runs that have not finished.")
    parts += _times(groups, keys)
    if any(key in keys for key in (f"metric {BYTES}", MEMORY_RATIO)):
        parts.append("Memory is what a step keeps for its backward pass.")
    if any(key.startswith("published") for key in keys):
        parts.append("Published: in the paper, at its own scale and on its own machine.")
    return " ".join(filter(None, parts))


def _own(groups: Sequence[Group], names: Sequence[str]) -> str:
    """Return the errors that do not become smaller with more seeds, by metric."""
    said = []
    for name in names:
        several = [group for group in groups if over_seeds(group, name)[1] > 1]
        errors = [error for group in several if (error := own_error(group, name)) > 0]
        if errors and all(map(math.isfinite, errors)):
            span = dict.fromkeys(number(float(f"{of(errors):.2g}")) for of in (min, max))
            said.append(f"{title(name)} ± {' to '.join(span)}")
    shared = "Not in it is the error of a measurement, on test data that all seeds share"
    return f"{shared}: {'; '.join(said)}." if said else ""


def _times(groups: Sequence[Group], keys: Collection[str]) -> list[str]:
    parts = []
    if RATIO in keys or MEMORY_RATIO in keys:
        parts.append(_comparison(groups))
    target = groups[0].target
    alone = [group.label for group in groups if not group.timed_in_turn_with(group)]
    if target and alone and f"metric {PACE}" in keys:
        those = "" if len(alone) == len(groups) else f" of {', '.join(alone)}"
        parts.append(f"Times{those} are those of training, which cannot be compared.")
    return parts


def _comparison(groups: Sequence[Group]) -> str:
    compared = list(zip(groups, baselines(groups), strict=True))
    labels = list(dict.fromkeys(base.label for _, base in compared if base is not None))
    if len(labels) == 1:
        return f"Ratios are relative to {labels[0]}."
    pairs = [
        f"{group.label} to {base.label}"
        for group, base in compared
        if base is not None and group is not base
    ]
    return f"Ratios are relative: {', '.join(pairs)}."
