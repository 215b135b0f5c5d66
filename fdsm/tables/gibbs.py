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

    In each sweep, every chosen cell takes the value of one of its donors. After several sweeps,
    the chosen cells of a row are a sample of their joint distribution given the other cells
    (van Buuren, 2007, https://doi.org/10.1177/0962280206074463).

    Args:
        forests: Each cell given the others.
        x: Complete rows to start with, shape `(N, D)`.
        is_redrawn: The cells that are drawn, shape `(N, C)`. The others stay.
        sweeps: Number of sweeps.
        generator: Random numbers, on the CPU.
        allowed: Which training rows may be donors of a column, shape `(R,)`. Default: all.

    Returns:
        The rows, shape `(N, D)`.
    """
    x = x.clone()
    columns = is_redrawn.any(0).nonzero().flatten().tolist()
    for _ in range(sweeps):
        fold = int(torch.randint(len(forests.roots), (), generator=generator))
        for j in columns:
            rows = is_redrawn[:, j].nonzero().flatten().to(x.device)
            donors = forests.donor_rows(x[rows], j, fold)
            if allowed is not None and j in allowed:
                weights = allowed[j][donors].double()
                has_donor = weights.any(1)
                rows, donors, weights = rows[has_donor], donors[has_donor], weights[has_donor]
            else:
                weights = torch.ones_like(donors, dtype=torch.float64)
            if len(rows):
                slot = torch.multinomial(weights.cpu(), 1, generator=generator).to(x.device)
                cells = forests.cells[donors.gather(1, slot)[:, 0], j]
                x[rows] = forests.view.with_cells(x[rows], j, cells)
    return x
