"""Compare the times of several functions on a noisy machine."""

from collections.abc import Callable, Mapping
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from fdsm.evaluation.timing import time_interleaved

Times = Mapping[str, list[float]]
"""Seconds of every run, by the name of the function."""


def interleaved(
    functions: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 3
) -> Times:
    """Time functions in interleaved runs.

    Args:
        functions: The functions, by name.
        repeats: Number of timed runs of each function.
        warm_up: Number of runs of each function before the timed ones.

    Returns:
        The seconds of every run.
    """
    return time_interleaved(functions, repeats, torch.device("cpu"), warm_up=warm_up)


def ratio(times: Times, name: str, reference: str) -> tuple[float, float]:
    """Return the ratio of the fastest runs, and the median of the ratios of neighbouring runs."""
    pairs = zip(times[name], times[reference], strict=True)
    return min(times[name]) / min(times[reference]), median(a / b for a, b in pairs)


def show(title: str, times: Times, reference: str) -> None:
    """Print the ratios of all times to one of them."""
    table = Table(title=title)
    for column in ("", "fastest, ms", "ratio of fastest", "median ratio"):
        table.add_column(column, justify="right" if column else "left")
    for name, seconds in times.items():
        fastest, typical = ratio(times, name, reference)
        table.add_row(name, f"{1e3 * min(seconds):.2f}", f"{fastest:.3f}", f"{typical:.3f}")
    Console().print(table)
