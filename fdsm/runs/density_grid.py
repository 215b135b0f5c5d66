"""What a model on the plane has learnt, as arrays to draw."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..atomic_io import replace_file
from ..data import SyntheticData
from ..derivatives import as_log_density, score_of
from ..recipes.recipe import Recipe
from ..typing import LogDensity, Score

POINTS = 81
"""How many points a side of the grid has."""


def save_density_grid(folder: Path, recipe: Recipe, f: LogDensity, x: torch.Tensor) -> None:
    """Write log-density and score on a grid around the data, and the true ones if known.

    Args:
        folder: Where `field.npz` goes.
        recipe: What was trained.
        f: The log-density of the model, `(B, 2) -> (B,)`.
        x: Some data, shape `(N, 2)`, which is written too.
    """
    half = 1.2 * x.abs().quantile(0.999).item()
    axis = torch.linspace(-half, half, POINTS, device=x.device)
    points = torch.cartesian_prod(axis, axis)
    arrays = {"axis": axis, "data": x[:2000], **_fields("model", f, score_of(f), points)}
    if isinstance(recipe.data, SyntheticData):
        truth = recipe.data.density
        arrays |= _fields("true", truth.log_density, truth.score, points)
    with replace_file(folder / "field.npz") as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **_numpy(arrays))


@torch.no_grad()
def _fields(
    name: str, f: LogDensity, score: Score, points: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return both on the grid, as `(n, n)` and `(n, n, 2)` over `(x, y)`."""
    return {
        f"{name}_log_density": as_log_density(f)(points).view(POINTS, POINTS),
        f"{name}_score": score(points).view(POINTS, POINTS, 2),
    }


def _numpy(arrays: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: array.cpu().numpy() for name, array in arrays.items()}
