from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from paper.data import GaussianDensity, ImageArray, SyntheticData
from paper.runs.density_grid import POINTS, save_density_grid

from ..recipes.recipe_cases import tiny
from .run_cases import StandardNormal


def test_grid_holds_the_values_and_scores_of_model_and_truth(tmp_path: Path) -> None:
    target = GaussianDensity((1.0, 0.0))
    source = SyntheticData(target, n=3000)
    x = source.load().train
    save_density_grid(tmp_path, replace(tiny, data=source), StandardNormal(), x)
    arrays = np.load(tmp_path / "density_grid.npz")
    axis = torch.from_numpy(arrays["axis"])
    assert len(axis) == POINTS
    assert 2 < axis.max() < 10
    torch.testing.assert_close(axis, -axis.flip(0))
    first, second = torch.meshgrid(axis, axis, indexing="ij")
    points = torch.stack([first, second], 2)
    torch.testing.assert_close(
        torch.from_numpy(arrays["model_log_density"]), -points.square().sum(2) / 2
    )
    torch.testing.assert_close(torch.from_numpy(arrays["model_score"]), -points)
    center = points - torch.tensor([1.0, 0.0])
    torch.testing.assert_close(torch.from_numpy(arrays["true_score"]), -center)
    assert np.array_equal(arrays["data"], x[:2000].numpy())


def test_grid_of_users_data_has_no_true_density(tmp_path: Path) -> None:
    recipe = replace(tiny, data=ImageArray("x.npy"))
    save_density_grid(tmp_path, recipe, StandardNormal(), torch.randn(50, 2))
    assert set(np.load(tmp_path / "density_grid.npz")) == {
        "axis", "data", "model_log_density", "model_score",
    }  # fmt: skip
