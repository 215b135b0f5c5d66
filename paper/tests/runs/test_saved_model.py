"""A saved model against a density that is known."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Generator, nn

import fdsm.training.checkpoint as checkpoint
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import NoiseScaled, QuadraticMLP, SlicedEquations
from fdsm.objectives import DSM, SM, SSM, SSMVR
from fdsm.typing import Derivative, Objective
from paper.data import (
    Affine,
    Chain,
    Digits,
    GaussianDensity,
    ImageArray,
    SyntheticData,
)
from paper.recipes import (
    EBM,
    VAE,
    Autoencoder,
    KernelFamily,
    Recipe,
    TrainingPlan,
    image_recipe,
)
from paper.runs import Run, RunError, SavedModel, train

from ..recipes.recipe_cases import silent, tiny
from .run_cases import (
    StandardNormal,
    known_model,
    start_tiny,
    write_array,
)


@dataclass(frozen=True)
class Small:
    """The settings of a small network that is given the noise level."""

    def build(self, shape: torch.Size) -> nn.Module:
        return NoiseScaled(QuadraticMLP(shape, (8,)))


TARGET = GaussianDensity((8.0, 8.0), ((16.0, 0.0), (0.0, 16.0)))


@pytest.fixture
def saved(tmp_path: Path) -> SavedModel:
    """A model that is right: data with standard deviation 4 and mean 8, scaled and shifted."""
    source = SyntheticData(TARGET, n=2000, transform=Chain((Affine(0.25, -2.0),)))
    return known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))


def test_log_density_is_that_of_the_data(saved: SavedModel) -> None:
    rows = torch.tensor([[8.0, 8.0], [0.0, 4.0], [20.0, 8.0]])
    normalized = saved.log_density(rows) - torch.log(torch.tensor(2 * torch.pi))
    assert normalized.dtype == torch.float64
    torch.testing.assert_close(normalized, TARGET.log_density(rows).double(), rtol=1e-5, atol=1e-5)


def test_saved_and_loaded_model_is_identical(
    saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save()
    monkeypatch.setattr(EBM, "build", lambda self, shape: StandardNormal())
    loaded = SavedModel.load(saved.run)
    rows = TARGET.sample(50, torch.Generator().manual_seed(5))
    assert torch.equal(loaded.log_density(rows), saved.log_density(rows))
    assert torch.equal(loaded.sample(3, silent, seed=2), saved.sample(3, silent, seed=2))
    assert (loaded.max_value, loaded.is_integer) == (saved.max_value, saved.is_integer)


def test_model_file_of_another_recipe_is_refused(saved: SavedModel) -> None:
    saved.save()
    with pytest.raises(RunError, match=r"model.safetensors does not match its config.json"):
        SavedModel.load(saved.run)


@pytest.mark.parametrize("size", [0, 10, 300])
def test_damaged_model_file_is_named(size: int, tmp_path: Path) -> None:
    run = start_tiny(tmp_path / "run")
    train(run)
    run.model_path.write_bytes(run.model_path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"model.safetensors"):
        SavedModel.load(run)


def autoencoder() -> Autoencoder:
    return Autoencoder("auto", SSMVR(), VAE, Digits(), latent=2, width=4)


def test_recipe_without_a_log_density_says_so(tmp_path: Path) -> None:
    saved = known_model(tmp_path / "run", nn.Identity(), autoencoder())
    with pytest.raises(RunError, match=r"no log-density.*an? Autoencoder can only be sampled"):
        saved.log_density(torch.zeros(1, 1, 8, 8))


@pytest.mark.parametrize("objective", [DSM(0.1), SM(Taylor())])
def test_fd_ssm_is_checked_for_objectives_without_random_directions(
    saved: SavedModel, objective: Objective
) -> None:
    """A Gaussian has no third derivative, so differences are exact up to rounding."""
    run = replace(saved.run, recipe=replace(saved.run.recipe, objective=objective))  # type: ignore[type-var]
    report = replace(saved, run=run).check(saved.run.recipe.data.load())
    assert report.step == pytest.approx(0.1)
    assert report.angle < 1


@pytest.mark.parametrize("engine", [Taylor(), Autodiff()])
def test_exact_derivatives_are_replaced_by_differences_in_a_check(
    saved: SavedModel, engine: Derivative
) -> None:
    run = replace(saved.run, recipe=replace(saved.run.recipe, objective=SSM(engine)))  # type: ignore[type-var]
    report = replace(saved, run=run).check(saved.run.recipe.data.load())
    assert report.step == pytest.approx(0.1)
    assert report.angle < 1


def test_check_does_not_depend_on_the_derivative_of_the_training(tmp_path: Path) -> None:
    reports = []
    for engine in (FiniteDifference(), Taylor(), Autodiff()):
        run = Run(tmp_path, replace(tiny, objective=SSM(engine, directions=4)))
        data = run.recipe.data.load()
        model = run.build(data.shape)
        saved = SavedModel(run, model, data.transform, data.shape, 1.0, False, {})
        reports.append(saved.check(data))
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].angle > 0


def test_default_recipe_of_images_can_be_checked(tmp_path: Path) -> None:
    """Its objective takes no random directions, and its network is given the noise level."""
    source = ImageArray(write_array(tmp_path / "a.npy"))
    data = source.load()
    recipe = replace(image_recipe(source, data), network=Small(), plan=TrainingPlan(5, 16))
    report = train(Run.create(tmp_path / "run", recipe)).check(data)
    assert report.step == pytest.approx(0.1)
    assert 0 <= report.angle < 10


@pytest.mark.parametrize(
    "recipe",
    [
        autoencoder(),
        KernelFamily("k", SSM(), Digits(), SlicedEquations()),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_models_that_cannot_be_checked_say_so(recipe: Recipe, tmp_path: Path) -> None:
    run, shape = Run(tmp_path, recipe), torch.Size([2])
    saved = SavedModel(run, nn.Identity(), Chain(()), shape, 1.0, False, {})
    with pytest.raises(RunError, match="cannot be checked"):
        saved.check(Digits().load())


def test_samples_are_in_the_space_of_the_data(
    saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EBM, "sample", lambda self, model, shape, n, *_: torch.ones(n, *shape))
    samples = saved.sample(3, silent)
    assert samples.tolist() == [[12.0, 12.0]] * 3
    integers = replace(saved, is_integer=True, max_value=11.0)
    assert integers.sample(3, silent).tolist() == [[11, 11]] * 3
    assert integers.sample(3, silent).dtype == torch.uint8


def test_many_samples_are_drawn_in_batches_and_repeatable(
    saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def sample(
        self: EBM, model: nn.Module, shape: torch.Size, n: int, generator: Generator, _: object
    ) -> torch.Tensor:
        counts.append(n)
        return torch.randn(n, *shape, generator=generator)

    monkeypatch.setattr(EBM, "sample", sample)
    first, again, other = (saved.sample(1100, silent, seed=seed) for seed in (1, 1, 2))
    assert counts == [500, 500, 100] * 3
    assert first.shape == (1100, 2)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.fixture
def tiny_model(tmp_path: Path) -> SavedModel:
    return train(start_tiny(tmp_path / "tiny"))


def test_parts_of_a_model_file_that_do_not_fit_are_noticed_when_it_is_read(
    tiny_model: SavedModel,
) -> None:
    path = tiny_model.run.model_path
    state = checkpoint.load(path)
    checkpoint.save(path, state | {"shape": [3]})
    with pytest.raises(RunError, match=r"model.safetensors does not match its config.json"):
        SavedModel.load(tiny_model.run)


def test_a_model_file_of_another_run_is_named(tiny_model: SavedModel) -> None:
    path = tiny_model.run.model_path
    checkpoint.save(path, checkpoint.load(path) | {"settings": "0" * 64})
    with pytest.raises(RunError, match=r"or .*model.safetensors is damaged or comes from another"):
        SavedModel.load(tiny_model.run)
