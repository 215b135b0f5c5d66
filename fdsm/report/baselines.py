"""With which row of a table the time of another is compared."""

from collections.abc import Sequence

from .runs import Group

BASELINES = {
    "table1": ("SSM",),
    "table2": ("DSM", "SSM"),
    "table3": ("SSM",),
    "table4": ("DSM",),
    "table5": ("SSMVR",),
    "table6": ("VAE SSMVR", "WAE SSMVR"),
}
"""The rows by gradients that the paper compares those by finite differences with."""


def baselines(groups: Sequence[Group]) -> list[Group]:
    """Return the group that each group is compared with.

    In a table of the paper it is the baseline all words of whose name are in that of the group:
    `VAE SSMVR` for `VAE FD-SSMVR`, and `DSM` for `FD-DSM*`. Otherwise it is the first.

    Args:
        groups: The groups of a table.

    Returns:
        A baseline for each of them.
    """
    target = groups[0].target
    first = [group for name in BASELINES.get(target, ()) for group in groups if _is(group, name)]
    longest = sorted(first, key=lambda group: -len(group.row))
    default = (first or groups)[0]
    return [next((b for b in longest if _fits(b, group)), default) for group in groups]


def _is(group: Group, name: str) -> bool:
    return group.row == name or group.row.endswith(f" {name}")


def _fits(baseline: Group, group: Group) -> bool:
    return all(word in group.row for word in baseline.row.split())
