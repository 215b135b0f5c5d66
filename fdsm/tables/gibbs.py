"""Cells drawn from their distribution given the other cells, one column after the other."""

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from .conditionals import Conditionals


def redraw(
    forests: Conditionals,
    x: Tensor,
    is_redrawn: Tensor,
    *,
    sweeps: int,
    generator: Generator,
    allowed: Mapping[int, Tensor] | None = None,
) -> Tensor:
    """Draw some cells of rows again, given all other cells (Gibbs sampling).

    In each sweep, every chosen cell takes the value of one of its donors, by the forest of a
    random fold. After several sweeps, the chosen cells of a row are a sample of their joint
    distribution given the other cells (van Buuren, 2007,
    https://doi.org/10.1177/0962280206074463). A single cell is drawn once.

    Args:
        forests: Each cell given the others.
        x: Complete rows to start with, shape `(N, D)`.
        is_redrawn: The cells that are drawn, shape `(N, C)`. The others stay.
        sweeps: Number of sweeps.
        generator: Random numbers, on the CPU.
        allowed: Which training rows may be donors of a column, shape `(R,)`. Default: all. A cell
            without such a donor stays, if an allowed training row has its value.

    Returns:
        The rows, shape `(N, D)`.
    """
    allowed = {} if allowed is None else allowed
    x = _start(forests, x, is_redrawn, generator, allowed)
    for sweep in range(sweeps):
        fold = torch.randint(len(forests.roots), (len(x),), generator=generator).to(x.device)
        if sweep == 1:
            is_redrawn = is_redrawn & (is_redrawn.sum(1, keepdim=True) > 1)
        for j in is_redrawn.any(0).nonzero().flatten().tolist():
            rows = is_redrawn[:, j].nonzero().flatten().to(x.device)
            donors = forests.donor_rows(x[rows], j, fold[rows])
            weights = torch.ones_like(donors, dtype=torch.float64)
            if j in allowed:
                weights = allowed[j][donors].double()
                has_donor = weights.any(1)
                rows, donors, weights = rows[has_donor], donors[has_donor], weights[has_donor]
            if len(rows):
                slot = torch.multinomial(weights.cpu(), 1, generator=generator).to(x.device)
                cells = forests.cells[donors.gather(1, slot)[:, 0], j]
                x[rows] = forests.view.with_cells(x[rows], j, cells)
    return x


def _start(
    forests: Conditionals,
    x: Tensor,
    is_redrawn: Tensor,
    generator: Generator,
    allowed: Mapping[int, Tensor],
) -> Tensor:
    """Return rows in which each drawn cell has a value of an allowed training row."""
    x, cells = x.clone(), forests.view.cells(x)
    for j, is_allowed in allowed.items():
        values = forests.cells[is_allowed, j]
        is_wrong = is_redrawn[:, j].to(x.device) & ~torch.isin(cells[:, j], values)
        rows = is_wrong.nonzero().flatten()
        if len(rows) and len(values):
            chosen = values[torch.randint(len(values), (len(rows),), generator=generator)]
            x[rows] = forests.view.with_cells(x[rows], j, chosen)
    return x
