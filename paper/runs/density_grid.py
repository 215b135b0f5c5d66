"""The log-density and score of a two-dimensional model on a grid, for plots."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fdsm.atomic_io import replace_file
from fdsm.derivatives import as_log_density, score_of
from fdsm.typing import LogDensity, Score

from ..data import SyntheticData
from ..recipes.recipe import Recipe

POINTS = 81
"""Number of grid points along each axis."""


def save_density_grid(folder: Path, recipe: Recipe, f: LogDensity, x: torch.Tensor) -> None:
    """Write the log-density and score on a grid around the data, with the true ones if known.

    Args:
        folder: Directory of `density_grid.npz`.
        recipe: The recipe of the model.
        f: The log-density of the model, `(B, 2) -> (B,)`.
        x: Some data, shape `(N, 2)`, which is written too.
    """
    half = 1.2 * x.abs().quantile(0.999).item()
    axis = torch.linspace(-half, half, POINTS, device=x.device)
    points = torch.cartesian_prod(axis, axis)
    arrays = {"axis": axis, "data": x[:2000], **_on_grid("model", f, score_of(f), points)}
    if isinstance(recipe.data, SyntheticData):
        truth = recipe.data.density
        arrays |= _on_grid("true", truth.log_density, truth.score, points)
    with replace_file(folder / "density_grid.npz") as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **_numpy(arrays))


@torch.no_grad()
def _on_grid(
    name: str, f: LogDensity, score: Score, points: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return the log-density `(n, n)` and the score `(n, n, 2)` on the grid."""
    return {
        f"{name}_log_density": as_log_density(f)(points).view(POINTS, POINTS),
        f"{name}_score": score(points).view(POINTS, POINTS, 2),
    }


def _numpy(arrays: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: array.cpu().numpy() for name, array in arrays.items()}
