"""Scores against a density that is known."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fdsm.runs.check import check
from fdsm.runs.reference import Reference, rows
from torch import Tensor, nn

from fdsm.data import Affine, Chain, DataError, Dataset, GaussianDensity, SyntheticData
from fdsm.derivatives import Autodiff, Taylor
from fdsm.objectives import DSM, SM, SSM
from fdsm.recipes.ebm import EBM
from fdsm.recipes.recipe import Density
from fdsm.runs.run import Run, RunError
from fdsm.runs.saved_model import SavedModel, density_of, open_trained, save_trained, score
from fdsm.runs.score import read_rows
from fdsm.typing import Derivative, Objective

from ..recipes.tiny import tiny
from .run_cases import TINY


class StandardNormal(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return -y.square().sum(1) / 2


class Normal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.precision = nn.Parameter(torch.ones(()))

    def forward(self, y: Tensor) -> Tensor:
        return -self.precision * y.square().sum(1) / 2


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SavedModel:
    """A model that is right: data of deviation 4 and mean 8, divided by 4 and shifted."""
    torch.set_default_dtype(torch.float32)
    target = GaussianDensity((8.0, 8.0), ((16.0, 0.0), (0.0, 16.0)))
    source = SyntheticData(target, n=2000, transform=Chain((Affine(0.25, -2.0),)))
    recipe = replace(tiny, data=source)
    data, run = source.load(), Run(tmp_path, TINY, recipe, 0, "cpu")
    save_trained(run, StandardNormal(), data, {"iterations": 1})
    run.write("config.json", {"stored_shape": [2], "data": {}})
    monkeypatch.setattr(EBM, "build", lambda self, shape: StandardNormal())
    return open_trained(run)


def test_log_densities_are_those_of_the_data(trained: SavedModel) -> None:
    target = GaussianDensity((8.0, 8.0), ((16.0, 0.0), (0.0, 16.0)))
    rows = torch.tensor([[8.0, 8.0], [0.0, 4.0], [20.0, 8.0]])
    unnormalised = trained.log_density(rows) - torch.log(torch.tensor(2 * torch.pi))
    torch.testing.assert_close(
        unnormalised, target.log_density(rows).double(), rtol=1e-5, atol=1e-5
    )


def test_typicality_is_the_distance_from_the_mean_log_density(trained: SavedModel) -> None:
    """The mean of the log-density of the model is $-1$, up to the constant of the transform."""
    rows = torch.tensor([[8.0, 8.0], [8.0, 8.0 + 4 * 2**0.5], [8.0, 28.0]])
    scores = score(trained, rows)
    assert scores.typicality.tolist() == pytest.approx([1.0, 0.0, 11.5], abs=0.1)
    assert scores.tail[1] > 0.9
    assert scores.tail[2] < 0.01


def test_typicality_is_relative_to_the_training_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows at radius `r` have log-density `-r²/2`; each part has another radius."""
    radius = {"train": 1.0, "validation": 2.0, "test": 3.0}
    parts = {name: torch.tensor([[r, 0.0], [0.0, -r]]) for name, r in radius.items()}
    data = Dataset(**parts, transform=Chain(()), record={})
    recipe = replace(tiny, data=replace(tiny.data, transform=Chain(())))
    run = Run(tmp_path, TINY, recipe, 0, "cpu")
    save_trained(run, StandardNormal(), data, {})
    run.write("config.json", {})
    monkeypatch.setattr(EBM, "build", lambda self, shape: StandardNormal())
    found = open_trained(run)
    assert found.reference is not None
    assert found.held_out is not None
    assert found.reference.tolist() == [-0.5, -0.5]
    assert found.held_out.tolist() == [-4.5, -4.5]
    assert score(found, parts["test"]).typicality.tolist() == [4.0, 4.0]


def test_a_model_without_a_density_names_recipes_that_exist_and_have_one(tmp_path: Path) -> None:
    sampler = rows("autoencoder_mnist")[0]
    run = Run(tmp_path, Reference("autoencoder_mnist"), sampler, 0, "cpu")
    with pytest.raises(RunError, match="has no log-density") as error:
        density_of(run, nn.Identity())
    named = re.findall(r"[a-z]+_[a-z]+", str(error.value).partition("train a")[2])
    assert len(named) == 3
    assert all(isinstance(row, Density) for name in named for row in rows(name))


def test_the_tail_of_data_like_the_training_data_is_uniform(trained: SavedModel) -> None:
    target = GaussianDensity((8.0, 8.0), ((16.0, 0.0), (0.0, 16.0)))
    tail = score(trained, target.sample(4000, torch.Generator().manual_seed(5))).tail
    assert tail.mean().item() == pytest.approx(0.5, abs=0.06)
    assert (tail < 0.2).double().mean().item() == pytest.approx(0.2, abs=0.08)


def test_rows_of_another_shape_are_refused(trained: SavedModel, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("a,b,c\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"shape \(3,\), but the model .* of shape \(2,\)"):
        read_rows(trained, path)
    path.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    names, rows = read_rows(trained, path)
    assert names == ["0", "1"]
    assert rows.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("objective", [DSM(0.1), SM(Taylor())])
def test_an_objective_without_random_directions_cannot_be_checked(
    trained: SavedModel, objective: Objective
) -> None:
    run = replace(trained.run, recipe=replace(tiny, objective=objective))
    with pytest.raises(RunError, match="takes no derivative along random directions"):
        check(replace(trained, run=run))


@pytest.mark.parametrize("engine", [Taylor(), Autodiff()])
def test_of_exact_objectives_the_differences_are_checked(
    trained: SavedModel, engine: Derivative
) -> None:
    """A Gaussian has no third derivative, so that differences with a step of 0.1 are exact."""
    run = replace(trained.run, recipe=replace(tiny, objective=SSM(engine)))
    report = check(replace(trained, model=Normal(), run=run))
    assert report.step == pytest.approx(0.1)
    assert report.angle < 1


def test_samples_come_back_to_the_space_of_the_data(
    trained: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EBM, "sample", lambda *_: torch.tensor([[0.0, 1.0]]))
    assert trained.sample(1, lambda numbers: numbers).tolist() == [[8.0, 12.0]]
    whole = replace(trained, integral=True, largest=10.0)
    assert whole.sample(1, lambda numbers: numbers).tolist() == [[8, 10]]


def test_a_run_by_autodiff_is_checked_as_if_by_differences(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    reports = []
    for objective in (tiny.objective, replace(tiny.objective, derivative=Autodiff())):
        run = Run(tmp_path, TINY, replace(tiny, objective=objective), 0, "cpu")
        data = run.recipe.data.load()
        model = run.build(data.shape)
        reports.append(
            check(SavedModel(run, model, data.transform, data.shape, None, None, 1.0, False, {}))
        )
    assert reports[0] == reports[1]
    assert reports[0].angle > 0


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    first, again, other = (
        Run(tmp_path, TINY, tiny, seed, "cpu").build(torch.Size([2])).state_dict()
        for seed in (0, 0, 1)
    )
    name = "network.1.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])


def test_images_on_another_scale_are_refused(trained: SavedModel, tmp_path: Path) -> None:
    path = tmp_path / "levels.csv"
    path.write_text("a,b\n1,255\n", encoding="utf-8")
    digits = replace(trained, integral=True, largest=16.0)
    with pytest.raises(DataError, match=r"values up to 255, but .* whole numbers up to 16"):
        read_rows(digits, path)
