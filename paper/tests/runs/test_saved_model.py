"""A saved model against a density that is known."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import SlicedEquations
from fdsm.objectives import DSM, SM, SSM, SSMVR, AnnealedDSM, ViaScore
from fdsm.training import checkpoint
from fdsm.typing import Derivative, Objective
from paper.data import (
    Affine,
    Chain,
    Dataset,
    Digits,
    EncodeColumns,
    FillMissing,
    GaussianDensity,
    SyntheticData,
    Table,
)
from paper.recipes import (
    EBM,
    VAE,
    Autoencoder,
    ConditionalMLP,
    CrossFittedEBM,
    KernelFamily,
    NoiseConditionalEBM,
    Recipe,
    TrainingPlan,
)
from paper.recipes.presets import choose_preset
from paper.runs import Run, RunError, SavedModel, train

from ..recipes.recipe_cases import silent, tiny
from .run_cases import (
    StandardNormal,
    identical,
    known_model,
    model_file,
    start_tiny,
    train_table,
    write_mixed_table,
    write_table,
)

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


def test_score_is_minus_the_logarithm_of_the_tail_probability(saved: SavedModel) -> None:
    """A Gaussian in two dimensions has P(-log p ≥ r²/2 + c) = exp(-r²/2)."""
    radius = torch.tensor([1.5, 2.0, 3.0, 5.0])
    rows = 8 + 4 * torch.stack([radius, torch.zeros(4)], 1)
    scores = saved.score(rows)
    expected = radius.square() / 2 / math.log(10) + math.log10(0.98)
    torch.testing.assert_close(scores.score, expected.double(), rtol=0.25, atol=0.1)
    assert scores.p_value[-1].item() == pytest.approx(1 / 201)


def test_outlier_scores_are_calibrated_on_test_rows(tmp_path: Path) -> None:
    """Rows at radius r have log-density -r²/2, and each split has another radius."""
    radius = {"train": 1.0, "validation": 2.0, "test": 3.0}
    parts = {name: torch.tensor([[r, 0.0], [0.0, -r]]) for name, r in radius.items()}
    data = Dataset(**parts, transform=Chain(()), record={})
    found = SavedModel.from_training(start_tiny(tmp_path), StandardNormal(), data, {})
    assert found.detector is not None
    assert found.detector.calibration.center.item() == pytest.approx(4.5)
    rows = torch.tensor([[3.0, 0.0], [3.1, 0.0], [1.0, 0.0]])
    assert found.score(rows).p_value.tolist() == pytest.approx([1.0, 1 / 3, 1 / 3])
    assert found.score(rows).score[1] > found.score(rows).score[0]


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
    for name in ("score", "p_value", "log_density"):
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
    assert saved.detector is None
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
        saved = SavedModel(
            run, model, data.transform, data.shape, None, None, None, 1.0, False, {}
        )
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
    saved = SavedModel(run, nn.Identity(), Chain(()), shape, None, None, None, 1.0, False, {})
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


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    """The default model of a table with dates, categories and missing cells."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("mixed")
    return train_table(folder / "run", write_mixed_table(folder / "train.csv"))


def test_members_score_the_rows_that_they_have_not_seen(mixed: SavedModel) -> None:
    """The first measure is minus the log-density at noise 0.1, by the member of the fold.

    Missing cells are filled from rows outside the fold.
    """
    recipe, data = mixed.run.recipe, mixed.run.recipe.data.load()
    assert isinstance(recipe, CrossFittedEBM)
    assert mixed.detector is not None
    found = mixed.detector.calibration
    folds = recipe.fold_of_rows(len(data.train))
    assert torch.equal(found.folds, folds)
    x = mixed.inputs(data.train)
    values = []
    for k in range(recipe.folds):
        filled = FillMissing().fit(x[folds != k]).completions(x[folds == k])
        members = [recipe.member_log_densities(mixed.model, y.expand(4, -1, -1)) for y in filled]
        values.append(-torch.stack(members).mean(0)[:, k])
    medians = torch.cat(values, 1).double().median(1).values
    torch.testing.assert_close(found.center[:3], medians, rtol=1e-4, atol=1e-4)
    assert found.weights[0].tolist() == pytest.approx([0.5 / 3] * 3 + [1.0, 0.2])
    assert found.weights[1].tolist() == pytest.approx([1 / 3] * 3 + [0.0, 0.0])


def test_all_rows_of_a_table_calibrate_the_p_values(mixed: SavedModel) -> None:
    """They are uniform on the held-out rows, and on new rows."""
    assert mixed.detector is not None
    held_out = mixed.detector.calibration.held_out_p_values()
    assert len(held_out) == 200
    new = Table(write_mixed_table(mixed.run.folder / "new.csv", 400, seed=8))
    schema = mixed.run.recipe.data.schema  # type: ignore[attr-defined]
    codes, _, _ = replace(new, schema=schema).read_codes()
    p = mixed.score(torch.from_numpy(codes)).p_value
    for level in (0.05, 0.25, 0.5):
        assert (held_out <= level).double().mean().item() == pytest.approx(level, abs=0.06)
        assert (p <= level).double().mean().item() == pytest.approx(level, abs=0.08)


def test_loaded_table_model_is_identical(mixed: SavedModel) -> None:
    loaded = SavedModel.load(Run.open(mixed.run.folder))
    rows = mixed.run.recipe.data.load().train[:40]
    assert identical(list(loaded.score(rows)), list(mixed.score(rows)))
    samples = [one.sample(5, silent, seed=3).nan_to_num(99.0) for one in (loaded, mixed)]
    assert torch.equal(*samples)
    assert loaded.log_partition == mixed.log_partition
    assert set(model_file(mixed.run)) >= {"detector", "log_partition", "transform"}


@pytest.mark.parametrize(
    ("part", "name", "change"),
    [
        ("transform", "rows", lambda rows: rows[:, :1]),
        ("detector", "known_values.surprises", lambda weights: weights.repeat(1, 3)),
    ],
)
def test_parts_of_a_model_file_that_do_not_fit_are_noticed_when_it_is_read(
    mixed: SavedModel, part: str, name: str, change: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    folder = shutil.copytree(mixed.run.folder, tmp_path / "run")
    state = checkpoint.load(folder / "model.safetensors")
    key = next(key for key in state[part] if key.endswith(name))
    state[part][key] = change(state[part][key])
    checkpoint.save(folder / "model.safetensors", state)
    with pytest.raises(RunError, match=r"model.safetensors does not match its config.json"):
        SavedModel.load(Run.open(folder))


def test_a_model_file_of_another_run_is_named(mixed: SavedModel, tmp_path: Path) -> None:
    folder = shutil.copytree(mixed.run.folder, tmp_path / "run")
    state = checkpoint.load(folder / "model.safetensors") | {"settings": "0" * 64}
    checkpoint.save(folder / "model.safetensors", state)
    with pytest.raises(RunError, match=r"or .*model.safetensors is damaged or comes from another"):
        SavedModel.load(Run.open(folder))


def test_samples_have_as_many_missing_cells_as_the_data(mixed: SavedModel) -> None:
    """Every ninth cell of column b is missing in the data, and no other cell."""
    samples = mixed.sample(600, silent)
    data = mixed.run.recipe.data.load()
    missing = data.train.isnan().double().mean(0)
    assert missing.tolist() == pytest.approx([0, 0, 0, 23 / 200, 0])
    found = samples.isnan().double().mean(0)
    assert found[[0, 1, 2, 4]].tolist() == [0.0] * 4
    assert found[3].item() == pytest.approx(23 / 200, abs=0.04)


def test_density_of_a_table_is_normalized_if_its_constant_is_known(tmp_path: Path) -> None:
    """The integral over a grid of the two columns is one."""
    saved = train_table(tmp_path / "run", write_table(tmp_path / "table.csv", 200, seed=1), 200)
    assert saved.log_partition is not None
    assert saved.transform.state()["1.mapped"].numel() == 0  # a smooth density
    value, error = saved.log_partition
    assert 0 < error < 0.1
    axis = torch.linspace(-8, 8, 161).double()
    rows = torch.cartesian_prod(axis, axis)
    total = saved.log_density(rows).exp().sum() * 0.1**2
    assert total.item() == pytest.approx(1.0, abs=3 * error + 0.02)
    raw = replace(saved, log_partition=None).log_density(rows[:1])
    torch.testing.assert_close(raw - value, saved.log_density(rows[:1]))


def test_new_values_grow_the_score_by_the_logarithm_of_the_smallest_p_value(
    mixed: SavedModel,
) -> None:
    scores = mixed.score(mixed.run.recipe.data.load().train[:3])
    found = mixed.with_new_values(scores, {1: 2})
    assert torch.equal(found.score[[0, 2]], scores.score[[0, 2]])
    assert torch.equal(found.p_value[[0, 2]], scores.p_value[[0, 2]])
    assert (found.score[1] - scores.score[1]).item() == pytest.approx(2 * math.log10(201))
    assert found.p_value[1].item() == pytest.approx(1 / 201)


def test_missing_cells_are_filled_in_several_ways(mixed: SavedModel) -> None:
    rows = mixed.run.recipe.data.load().train[:20]
    complete = rows[~rows.isnan().any(1)][:4]
    assert mixed.completions(complete).shape[:2] == (1, 4)
    gaps = complete.clone()
    gaps[0, 4] = torch.nan
    filled = mixed.completions(gaps)
    assert filled.shape[:2] == (5, 4)
    assert not filled.isnan().any()
    assert torch.equal(filled[:, 1:], mixed.completions(complete)[:, 1:].expand(5, -1, -1))
    assert mixed.fills_missing
    plain = replace(mixed, transform=Chain((EncodeColumns(),)))
    assert not plain.fills_missing


def test_ensemble_of_a_table_can_be_checked(mixed: SavedModel) -> None:
    report = mixed.check(mixed.run.recipe.data.load())
    assert report.step == pytest.approx(0.1)
    assert 0 <= report.angle < 10
