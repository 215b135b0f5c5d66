"""A saved model against a density that is known."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, nn

from fdsm.data import (
    Affine,
    Chain,
    Dataset,
    Digits,
    GaussianDensity,
    SyntheticData,
    Table,
)
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import SlicedEquations
from fdsm.objectives import DSM, SM, SSM, SSMVR, AnnealedDSM, ViaScore
from fdsm.recipes import (
    EBM,
    VAE,
    Autoencoder,
    ConditionalMLP,
    KernelFamily,
    NoiseConditionalEBM,
    Recipe,
    TrainingPlan,
)
from fdsm.recipes.presets import choose_preset
from fdsm.runs import Run, RunError, SavedModel, train
from fdsm.typing import Derivative, Objective

from ..recipes.recipe_cases import silent, tiny
from .run_cases import StandardNormal, known_model, start_tiny, write_table

TARGET = GaussianDensity((8.0, 8.0), ((16.0, 0.0), (0.0, 16.0)))


@pytest.fixture
def saved(tmp_path: Path) -> SavedModel:
    """A model that is right: data with standard deviation 4 and mean 8, scaled and shifted."""
    source = SyntheticData(TARGET, n=2000, transform=Chain((Affine(0.25, -2.0),)))
    return known_model(tmp_path / "run", StandardNormal(), replace(tiny, data=source))


def test_log_density_is_that_of_the_data(saved: SavedModel) -> None:
    rows = torch.tensor([[8.0, 8.0], [0.0, 4.0], [20.0, 8.0]])
    normalised = saved.log_density(rows) - torch.log(torch.tensor(2 * torch.pi))
    assert normalised.dtype == torch.float64
    torch.testing.assert_close(normalised, TARGET.log_density(rows).double(), rtol=1e-5, atol=1e-5)


def test_typicality_is_the_distance_from_the_mean_log_density(saved: SavedModel) -> None:
    """The mean log-density of the model is -1, up to the constant of the transform."""
    rows = torch.tensor([[8.0, 8.0], [8.0, 8.0 + 4 * 2**0.5], [8.0, 28.0]])
    scores = saved.score(rows)
    assert scores.typicality.tolist() == pytest.approx([1.0, 0.0, 11.5], abs=0.1)
    assert scores.p_value[1] > 0.9
    assert scores.p_value[2] < 0.01


def test_typicality_is_relative_to_training_rows_and_p_values_to_test_rows(
    tmp_path: Path,
) -> None:
    """Rows at radius r have log-density -r²/2, and each split has another radius."""
    radius = {"train": 1.0, "validation": 2.0, "test": 3.0}
    parts = {name: torch.tensor([[r, 0.0], [0.0, -r]]) for name, r in radius.items()}
    data = Dataset(**parts, transform=Chain(()), record={})
    found = SavedModel.from_training(start_tiny(tmp_path), StandardNormal(), data, {})
    assert found.train_log_density is not None
    assert found.test_log_density is not None
    assert found.train_log_density.tolist() == [-0.5, -0.5]
    assert found.test_log_density.tolist() == [-4.5, -4.5]
    assert found.score(parts["test"]).typicality.tolist() == [4.0, 4.0]
    rows = torch.tensor([[1.0, 0.0], [3.0, 0.0], [3.1, 0.0]])
    assert found.score(rows).p_value.tolist() == [1.0, 1.0, 0.0]


def test_p_values_of_new_rows_of_the_same_data_are_uniform(saved: SavedModel) -> None:
    p_value = saved.score(TARGET.sample(4000, torch.Generator().manual_seed(5))).p_value
    assert p_value.mean().item() == pytest.approx(0.5, abs=0.06)
    assert (p_value < 0.2).double().mean().item() == pytest.approx(0.2, abs=0.08)


def test_saved_and_loaded_model_is_identical(
    saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save()
    monkeypatch.setattr(EBM, "build", lambda self, shape: StandardNormal())
    loaded = SavedModel.load(saved.run)
    rows = TARGET.sample(50, torch.Generator().manual_seed(5))
    for name in ("log_density", "typicality", "p_value"):
        assert torch.equal(getattr(loaded.score(rows), name), getattr(saved.score(rows), name)), (
            name
        )
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
    assert saved.train_log_density is None
    with pytest.raises(RunError, match=r"no log-density.*an? Autoencoder can only be sampled"):
        saved.score(torch.zeros(1, 1, 8, 8))


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
        saved = SavedModel(run, model, data.transform, data.shape, None, None, 1.0, False, {})
        reports.append(saved.check(data))
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].angle > 0


def conditional(path: Path) -> NoiseConditionalEBM:
    return NoiseConditionalEBM(
        "x", ViaScore(AnnealedDSM()), Table(path), ConditionalMLP((8,)), plan=TrainingPlan(5, 16)
    )


def test_default_preset_can_be_checked(tmp_path: Path) -> None:
    """Its objective takes no random directions, and its network is given the noise level."""
    run = Run.create(tmp_path / "run", conditional(write_table(tmp_path / "table.csv")))
    data = run.recipe.data.load()
    report = train(run, data).check(data)
    assert report.step == pytest.approx(0.1)
    assert 0 <= report.angle < 10


@pytest.mark.parametrize("objective", ["ssm", "ssmvr", "sm"])
def test_other_objectives_of_the_energy_model_can_be_checked(
    objective: str, tmp_path: Path
) -> None:
    source = Table(write_table(tmp_path / "table.csv"))
    data = source.load()
    recipe = choose_preset(source, data, objective=objective).recipe  # type: ignore[arg-type]
    recipe = replace(recipe, plan=TrainingPlan(3, 16), network=ConditionalMLP((8,)))  # type: ignore[type-var]
    saved = train(Run.create(tmp_path / "run", recipe), data)
    assert 0 <= saved.check(data).angle < 20


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
    saved = SavedModel(run, nn.Identity(), Chain(()), shape, None, None, 1.0, False, {})
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
