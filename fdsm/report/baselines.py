"""With which row of a table the time of another is compared."""

from collections.abc import Sequence

from .model import Group

BASELINES = {
    "table1": ("SSM",),
    "table2": ("DSM", "SSM"),
    "table3": ("SSM",),
    "table4": ("DSM",),
    "table5": ("SSMVR",),
    "table6": ("VAE SSMVR", "WAE SSMVR"),
    "figure3": ("DSM",),
}
"""The rows by gradients that the paper compares those by finite differences with."""


def baselines(groups: Sequence[Group]) -> list[Group | None]:
    """Return the group that each group is compared with.

    In a table of the paper it is, among the baselines on the same data, the one all words of
    whose name are in that of the group, such as `VAE SSMVR` for `VAE FD-SSMVR` and `DSM` for
    `FD-DSM*`, and otherwise the first. Elsewhere it is the first group.

    Args:
        groups: The groups of a table.

    Returns:
        A baseline for each of them, or none if there is no baseline on its data.
    """
    names = BASELINES.get(groups[0].target)
    if names is None:
        return [groups[0] for _ in groups]
    known = [group for name in names for group in groups if _is(group, name)]
    return [_baseline(group, [one for one in known if one.data == group.data]) for group in groups]


def _baseline(group: Group, known: Sequence[Group]) -> Group | None:
    longest = sorted(known, key=lambda one: -len(one.row))
    fitting = (one for one in longest if all(word in group.row for word in one.row.split()))
    return next(fitting, known[0] if known else None)


def _is(group: Group, name: str) -> bool:
    return group.row == name or group.row.endswith(f" {name}")
