"""Results: a wrong model must not look right, and a right model must not look wrong."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement
from fdsm.objectives import MLE
from fdsm.training.loggers import read_metrics
from paper.data import (
    Chain,
    Dataset,
    GaussianDensity,
    GaussianMixtureDensity,
    SyntheticData,
)
from paper.data.split import fixed_shuffle
from paper.recipes import EBM, Flow
from paper.runs import Run, RunError, SavedModel, evaluate, train
from paper.runs.evaluate import compare_with_references, sample_problems

from ..recipes.recipe_cases import silent, tiny
from .run_cases import (
    StandardNormal,
    known_model,
    start_tiny,
)

GAUSSIAN = SyntheticData(GaussianDensity((0.0, 0.0)), n=2000)
MIXTURE = GaussianMixtureDensity(((-3.0, 0.0), (3.0, 0.0)), (0.5, 0.5))
BOTH = ["Gaussian", "Gaussian mixture"]


def gaussian_recipe(noise_std: float = 0.0) -> EBM:
    return replace(tiny, data=GAUSSIAN, ood_sources=(), noise_std=noise_std, sm_eval_rows=5)


def compare(folder: Path, model: nn.Module, recipe: EBM | Flow) -> dict[str, Any]:
    """Return the comparison of a model with references for each metric."""
    saved = known_model(folder, model, recipe)
    compared = compare_with_references(saved, recipe.data.load())
    return {one["metric"]: one for one in compared}


class Density(nn.Module):
    """A known density as a module."""

    def __init__(self, density: GaussianMixtureDensity | GaussianDensity) -> None:
        super().__init__()
        self.density = density

    def forward(self, x: Tensor) -> Tensor:
        return self.density.log_density(x)


def test_true_gaussian_does_not_lose_to_references(tmp_path: Path) -> None:
    """The exact loss of N(0, I) is tr ∇² log p + ‖∇ log p‖²/2, with mean -d/2 = -1."""
    found = compare(tmp_path, StandardNormal(), gaussian_recipe())
    assert set(found) == {"exact_sm_loss"}
    one = found["exact_sm_loss"]
    assert one["better"] == []
    assert one["model"]["value"] == pytest.approx(-1, abs=4 * one["model"]["error"])
    assert one["references"]["Gaussian"]["value"] == pytest.approx(-1, abs=0.3)
    assert set(one["references"]) == set(BOTH)


@pytest.mark.parametrize(
    "model", [StandardNormal(precision=1.05), StandardNormal(0.05)], ids=["narrow", "shifted"]
)
def test_models_close_to_the_truth_do_not_lose(model: nn.Module, tmp_path: Path) -> None:
    """Their losses are higher by 0.0025, a quarter of a percent."""
    assert compare(tmp_path, model, gaussian_recipe())["exact_sm_loss"]["better"] == []


@pytest.mark.parametrize(
    "model",
    [
        StandardNormal(shift=0.7),
        StandardNormal(precision=4.0),
        StandardNormal(precision=-1.0),
        StandardNormal(shift=math.nan),
        StandardNormal(precision=math.inf),
    ],
    ids=["shifted", "too narrow", "improper", "nan", "inf"],
)
def test_wrong_models_lose_to_both_references(model: nn.Module, tmp_path: Path) -> None:
    assert compare(tmp_path, model, gaussian_recipe())["exact_sm_loss"]["better"] == BOTH


def test_untrained_network_loses_to_both_references(tmp_path: Path) -> None:
    torch.manual_seed(0)
    recipe = gaussian_recipe()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1, bias=False), nn.Flatten(0))
    assert compare(tmp_path, model, recipe)["exact_sm_loss"]["better"] == BOTH


def test_true_mixture_beats_the_gaussian_and_ties_with_the_mixture(tmp_path: Path) -> None:
    recipe = replace(tiny, data=SyntheticData(MIXTURE, n=4000))
    one = compare(tmp_path / "a", Density(MIXTURE), recipe)["exact_sm_loss"]
    assert one["better"] == []
    assert one["references"]["Gaussian"]["value"] > one["model"]["value"] + 1
    gaussian = Density(GaussianDensity((0.0, 0.0), ((9.25, 0.0), (0.0, 0.25))))
    one = compare(tmp_path / "b", gaussian, recipe)["exact_sm_loss"]
    assert one["better"] == ["Gaussian mixture"]


def test_model_of_noisy_data_is_compared_on_noisy_data(tmp_path: Path) -> None:
    """With noise 1 the truth is N(0, 2I), whose exact loss is -d/4; N(0, I) is wrong then."""
    recipe = gaussian_recipe(noise_std=1.0)
    one = compare(tmp_path / "a", StandardNormal(precision=0.5), recipe)["exact_sm_loss"]
    assert one["better"] == []
    assert one["model"]["value"] == pytest.approx(-0.5, abs=4 * one["model"]["error"])
    one = compare(tmp_path / "b", StandardNormal(), recipe)["exact_sm_loss"]
    assert one["better"] == BOTH


def test_normalized_models_are_compared_by_likelihood_too(tmp_path: Path) -> None:
    recipe = Flow("flow", MLE(), GAUSSIAN)
    truth = Density(GaussianDensity((0.0, 0.0)))
    found = compare(tmp_path / "a", truth, recipe)
    assert set(found) == {"exact_sm_loss", "nll"}
    entropy = math.log(2 * math.pi * math.e)
    assert found["nll"]["model"]["value"] == pytest.approx(entropy, abs=0.3)
    assert found["nll"]["better"] == found["exact_sm_loss"]["better"] == []
    wide = Density(GaussianDensity((0.0, 0.0), ((100.0, 0.0), (0.0, 100.0))))
    assert compare(tmp_path / "b", wide, recipe)["nll"]["better"] == BOTH


@pytest.mark.parametrize(
    ("nll", "better"),
    [
        (Measurement(2.8, 0.1), []),
        (Measurement(9.0, 0.1), BOTH),
        (Measurement(math.nan, 0.1), BOTH),
        (Measurement(math.inf), BOTH),
    ],
    ids=str,
)
def test_estimated_likelihood_is_compared_with_its_error(
    nll: Measurement, better: list[str], tmp_path: Path
) -> None:
    """The entropy of N(0, I) in two dimensions is 2.84."""
    saved = known_model(tmp_path, StandardNormal(), gaussian_recipe())
    compared = compare_with_references(saved, GAUSSIAN.load(), nll)
    assert [one["metric"] for one in compared] == ["exact_sm_loss", "nll"]
    assert compared[1]["better"] == better


def test_few_rows_are_compared_with_a_gaussian_only(tmp_path: Path) -> None:
    source = SyntheticData(GaussianDensity((0.0, 0.0)), n=20)
    one = compare(tmp_path / "run", StandardNormal(), replace(tiny, data=source))
    assert set(one["exact_sm_loss"]["references"]) == {"Gaussian"}
    assert one["exact_sm_loss"]["better"] == []


def test_many_dimensions_are_compared_on_fewer_rows(tmp_path: Path) -> None:
    source = SyntheticData(GaussianDensity((0.0,) * 100), n=2500)
    one = compare(tmp_path, StandardNormal(), replace(tiny, data=source))["exact_sm_loss"]
    assert one["model"]["settings"]["rows"] == 200
    assert one["better"] == []


def normal_table(rows: int = 1000) -> Dataset:
    x = torch.randn(rows, 2, generator=Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    return Dataset(x, x, x, Chain(()), {"columns": ["length", "weight"]})


def test_samples_like_the_data_have_no_problems() -> None:
    data = normal_table()
    assert sample_problems(data.train.flip(0), data) == []
    assert sample_problems(1.5 * data.train, data) == []
    assert sample_problems(data.train + 0.3 * data.train.std(0), data) == []


def test_shifted_samples_name_the_column_and_the_shift() -> None:
    data = normal_table()
    (problem,) = sample_problems(data.train + torch.tensor([0.0, 30.0]), data)
    assert problem == "weight: the mean is off by 2.9 standard deviations of the data"
    problems = sample_problems(data.train + 1000, data)
    assert [one.partition(":")[0] for one in problems] == ["length", "weight"]


@pytest.mark.parametrize(("factor", "text"), [(5.0, "5 times"), (0.1, "0.1 times")])
def test_samples_with_another_spread_name_the_column_and_the_factor(
    factor: float, text: str
) -> None:
    data = normal_table()
    (problem,) = sample_problems(data.train * torch.tensor([factor, 1.0]), data)
    assert problem == f"length: the standard deviation is {text} that of the data"


def test_samples_with_another_correlation_name_the_columns() -> None:
    z = torch.randn(2000, 2, generator=Generator().manual_seed(0))
    x = torch.stack([z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1]], 1)
    data = Dataset(x, x, x, Chain(()), {"columns": ["length", "weight"]})
    (problem,) = sample_problems(torch.stack([x[:, 0], z[:, 1]], 1), data)
    assert problem.startswith("the correlation of length and weight is ")
    ours, true = float(problem.split()[7]), float(problem.split()[-1])
    assert abs(ours) < 0.1  # independent by construction
    assert abs(true - 0.8) < 0.05
    close = torch.stack([x[:, 0], 0.7 * z[:, 0] + 0.51**0.5 * z[:, 1]], 1)
    assert sample_problems(close, data) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_samples_that_are_not_finite_are_a_problem(value: float) -> None:
    data = normal_table()
    samples = data.train.clone()
    samples[3, 1] = value
    assert sample_problems(samples, data) == ["some samples are not finite"]


def test_correlations_of_few_samples_are_not_compared() -> None:
    """Samples and data have opposite correlations."""
    x = normal_table().train
    data = replace(normal_table(), train=torch.stack([x[:, 0], x[:, 0]], 1))
    samples = torch.stack([x[:, 0], -x[:, 0]], 1)
    assert "correlation of length and weight" in sample_problems(samples, data)[0]
    assert sample_problems(samples[:49], data) == []


def test_images_are_compared_as_a_whole() -> None:
    pixels = torch.randint(0, 256, (200, 1, 4, 4), generator=Generator().manual_seed(0))
    images = pixels.to(torch.uint8)
    data = Dataset(images, images, images, Chain(()), {})
    assert sample_problems(images[:64], data) == []
    (problem,) = sample_problems(torch.zeros(64, 1, 4, 4), data)
    assert problem.startswith("all values: the mean is off by 1.7 standard deviations")
    (problem,) = sample_problems(torch.full((64, 1, 4, 4), 127), data)
    assert problem == "all values: the standard deviation is 0 times that of the data"


def test_one_sample_is_too_few_for_a_judgment() -> None:
    data = normal_table()
    assert sample_problems(data.train.mean(0, keepdim=True), data) == []
    assert sample_problems(data.train[:10] * 3, data) == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    torch.set_default_dtype(torch.float32)
    return train(start_tiny(tmp_path_factory.mktemp("saved") / "run"))


def test_result_is_written_and_repeatable(saved: SavedModel) -> None:
    data = saved.run.recipe.data.load()
    first, second = evaluate(saved, data, silent), evaluate(saved, data, silent)
    assert first == second == saved.run.result
    again = evaluate(SavedModel.load(Run.open(saved.run.folder)), data, silent)
    assert again == first
    assert set(first["metrics"]) == {"exact_sm_loss", "fisher", "ood_auc_shuffled"}
    assert (first["iterations"], first["ended"]) == (40, "all iterations done")
    names = {path.name for path in saved.run.folder.iterdir()}
    assert {"result.json", "samples.npy", "density_grid.npz"} <= names
    assert first["samples"] == "samples.npy"


def test_metrics_are_those_of_the_comparison(saved: SavedModel) -> None:
    """The recipe's own exact loss is that of 10 rows, the comparison's that of all 20."""
    data = saved.run.recipe.data.load()
    alone = evaluate(saved, data, silent, references=False)
    assert "comparisons" not in alone
    assert alone["metrics"]["exact_sm_loss"]["settings"]["rows"] == 10
    result = evaluate(saved, data, silent)
    (compared,) = result["comparisons"]
    assert compared["metric"] == "exact_sm_loss"
    assert result["metrics"]["exact_sm_loss"] == compared["model"]
    assert compared["model"]["settings"]["rows"] == 20


def test_result_of_a_model_that_is_not_finite_is_json(tmp_path: Path) -> None:
    recipe = gaussian_recipe()
    model = known_model(tmp_path, StandardNormal(), recipe)
    with torch.no_grad():
        model.model.precision.fill_(math.nan)  # type: ignore[operator]
    model = replace(model, run=replace(model.run, recipe=_without_samples(recipe)))
    result = evaluate(model, recipe.data.load(), silent)
    assert result["comparisons"][0]["better"] == BOTH
    assert json.loads((tmp_path / "result.json").read_text())["comparisons"][0]["better"] == BOTH


def _without_samples(recipe: EBM) -> EBM:
    return replace(recipe, plan=replace(recipe.plan, num_samples=0))


def test_run_that_stopped_before_its_first_log_entry_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EBM, "validate", lambda *_: {"loss": float("nan")})
    settings = ("plan.validate_every=5", "plan.patience=10", "plan.log_every=50")
    run = start_tiny(tmp_path / "run", *settings, "plan.num_samples=0")
    data = run.recipe.data.load()
    result = evaluate(train(run, data), data, silent)
    assert result["iterations"] == 10
    assert result["milliseconds_per_iteration"] > 0
    assert "samples" not in result
    assert all(r["validation"]["loss"] is None for r in read_metrics(run.folder / "metrics.jsonl"))


def test_evaluation_uses_the_test_rows_in_shuffled_order(
    saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Dataset] = []

    def note(
        self: EBM, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        seen.append(data)
        return {}

    monkeypatch.setattr(EBM, "evaluate", note)
    data = saved.run.recipe.data.load()
    evaluate(saved, data, silent)
    assert torch.equal(seen[0].test, fixed_shuffle(data.test))
    assert not torch.equal(seen[0].test, data.test)
    assert torch.equal(seen[0].train, data.train)


def test_other_data_are_refused(saved: SavedModel) -> None:
    other = SyntheticData(MIXTURE, n=100).load()
    with pytest.raises(RunError, match=r"have changed since training started: rows\.train"):
        evaluate(saved, other, silent)
