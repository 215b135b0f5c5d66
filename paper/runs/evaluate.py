"""Evaluating a trained model: its metrics in `result.json`, and samples."""

import dataclasses
import math
import statistics
from typing import Any

import torch
from torch import Tensor

from fdsm.evaluation import (
    Measurement,
    fit_gaussian,
    fit_gaussian_mixture,
    log_densities,
    mean_of,
    sm_losses,
)
from fdsm.samplers import Progress
from fdsm.serialize import Json, to_json
from fdsm.tensors import dimension, randn_like
from fdsm.training import read_metrics

from ..data import Dataset
from ..data.split import fixed_shuffle
from ..recipes.recipe import HasLogDensity
from .density_grid import save_density_grid
from .samples import save_samples
from .saved_model import SavedModel

REFERENCE_ROWS = 10_000
"""Largest number of training rows to which reference densities are fitted."""
LOSS_ROWS, LOSS_ELEMENTS = 500, 20_000
"""Maximum number of rows, and of elements of all rows, for exact score-matching losses."""
MARGIN = 0.01
"""A reference with a smaller advantage is not reported as better: relative to the score-matching
loss of the Gaussian, or in nats of likelihood per dimension."""
SAMPLE_SHIFT = 0.5
"""Largest accepted error of the mean of samples, in standard deviations of the data."""
SAMPLE_CORRELATION = 0.3
"""Samples with a correlation of two columns that is off by more are reported as wrong."""
FEW_SAMPLES = 50
"""With fewer samples, standard deviations and correlations are not compared."""
SAMPLE_SPREAD = 2.0
"""Largest accepted factor between the standard deviations of samples and data."""


def evaluate(
    saved: SavedModel, data: Dataset, progress: Progress, *, references: bool = True
) -> dict[str, Any]:
    """Evaluate a model on the test rows, draw samples, and write `result.json`.

    Args:
        saved: The model.
        data: The data set of its run.
        progress: Wraps the loops of the sampler, to show progress.
        references: Whether to compare a log-density with a Gaussian and a Gaussian mixture.

    Returns:
        The content of `result.json`.
    """
    run = saved.run
    run.require_same_data(data)
    data = dataclasses.replace(data, test=fixed_shuffle(data.test), transform=saved.transform)
    metrics = run.recipe.evaluate(saved.model, data, run.generator("evaluate"))
    result: dict[str, Any] = {
        **saved.progress,
        "milliseconds_per_iteration": _milliseconds(saved),
        "metrics": {name: _record(m) for name, m in metrics.items()},
    }
    problems: list[str] = []
    if references and isinstance(run.recipe, HasLogDensity):
        compared = compare_with_references(saved, data, metrics.get("nll"))
        result["metrics"] |= {comparison["metric"]: comparison["model"] for comparison in compared}
        result["comparisons"] = compared
        problems += [
            sentence for comparison in compared for sentence in _lost_comparisons(comparison)
        ]
    if count := run.recipe.plan.num_samples:
        samples = saved.sample(count, progress)
        files = save_samples(run.folder, samples, saved.max_value)
        result["samples"], result["num_samples"] = files[-1].name, count
        differences = sample_problems(samples, data)
        problems += [f"Samples differ from the data: {problem}." for problem in differences]
    if saved.shape == (2,) and isinstance(run.recipe, HasLogDensity):
        x = data.transform.deterministic(data.test).to(run.device)
        save_density_grid(run.folder, run.recipe, run.recipe.log_density(saved.model), x)
    result["problems"] = problems
    run.write("result.json", result)
    return result


def compare_with_references(
    saved: SavedModel, data: Dataset, estimated_nll: Measurement | None = None
) -> list[dict[str, Any]]:
    """Compare a log-density with a Gaussian and a Gaussian mixture fitted to the same data.

    All are evaluated on the same test rows, with the same noise if the model is a density of noisy
    data. A reference is reported as better if its mean loss is lower than the model's by more than
    two standard errors of the paired differences, and by more than `MARGIN`.

    Args:
        saved: A model with a log-density.
        data: Its data set.
        estimated_nll: The negative log-likelihood of an unnormalized model, if it was estimated.

    Returns:
        One record per metric: its name, the model's value, those of the references, and the names
        of the references that are better than the model.
    """
    run, recipe = saved.run, saved.run.recipe
    assert isinstance(recipe, HasLogDensity)
    f, generator = recipe.log_density(saved.model), run.generator("references")

    def rows(stored: Tensor, noise: float) -> Tensor:
        x = saved.transform.sample(stored.to(run.device), generator)
        return x + noise * randn_like(x, generator) if noise else x

    noise = recipe.noise_std
    train, test = rows(data.train[:REFERENCE_ROWS], 0.0), rows(data.test[:REFERENCE_ROWS], noise)
    references = {"Gaussian": fit_gaussian(train, noise=noise)}
    mixture = fit_gaussian_mixture(train, noise=noise, generator=generator)
    if mixture is not None:
        references["Gaussian mixture"] = mixture
    few = test[: max(1, min(LOSS_ROWS, LOSS_ELEMENTS // dimension(test)))]
    losses = {name: reference.sm_losses(few) for name, reference in references.items()}
    margin = MARGIN * abs(losses["Gaussian"].mean().item())
    compared = [_compared("exact_sm_loss", sm_losses(f, few).double(), losses, margin)]
    losses, margin = (
        {name: -reference.log_prob(test) for name, reference in references.items()},
        MARGIN * dimension(test),
    )
    if recipe.is_normalized:
        compared.append(_compared("nll", -log_densities(f, test).double(), losses, margin))
    elif estimated_nll is not None:
        values = {name: mean_of(each) for name, each in losses.items()}
        better = [
            name
            for name, value in values.items()
            if _is_worse(
                estimated_nll.value - value.value,
                math.hypot(estimated_nll.error or 0.0, value.error or 0.0),
                margin,
            )
        ]
        compared.append(_comparison("nll", estimated_nll, values, better))
    return compared


def _lost_comparisons(compared: dict[str, Any]) -> list[str]:
    """Return a sentence for each reference that is better than the model."""
    titles = {"exact_sm_loss": "exact score-matching loss", "nll": "negative log-likelihood"}
    return [
        f"The model is worse than a {name} fitted to the same data: {titles[compared['metric']]} "
        f"{Measurement(**compared['model'])} against "
        f"{Measurement(**compared['references'][name])}."
        for name in compared["better"]
    ]


def _is_worse(difference: float, error: float, margin: float) -> bool:
    """Return whether a loss exceeds that of a reference. A loss that is not finite does too."""
    return not difference <= max(2 * error, margin)


def _compared(
    metric: str, model: Tensor, references: dict[str, Tensor], margin: float
) -> dict[str, Any]:
    """Return the record of a comparison from the losses of each row."""
    differences = {name: mean_of(model - losses) for name, losses in references.items()}
    better = [
        name
        for name, difference in differences.items()
        if _is_worse(difference.value, difference.error or 0.0, margin)
    ]
    values = {name: mean_of(losses) for name, losses in references.items()}
    return _comparison(metric, mean_of(model), values, better)


def _comparison(
    metric: str, model: Measurement, references: dict[str, Measurement], better: list[str]
) -> dict[str, Any]:
    return {
        "metric": metric,
        "model": _record(model),
        "references": {name: _record(value) for name, value in references.items()},
        "better": better,
    }


def sample_problems(samples: Tensor, data: Dataset) -> list[str]:
    """Return the clear differences between samples and data in mean, spread and correlation.

    Args:
        samples: Samples in the space of the data, shape `(n, *E)`.
        data: The data set.

    Returns:
        One sentence for each problem. Images are compared as a whole, tables column by column.
    """
    names, drawn, train = data.columns, samples.double(), data.train.double()
    if names is None:
        names, drawn, train = ["all values"], drawn.reshape(-1, 1), train.reshape(-1, 1)
    if not bool(drawn.isfinite().all()):
        return ["some samples are not finite"]
    count = len(drawn)
    if count < 2:
        return []
    spread = train.std(0).clamp_min(torch.finfo(torch.float32).tiny)
    shift = (drawn.mean(0) - train.mean(0)).abs() / spread
    ratio = drawn.std(0) / spread
    error = ratio / count**0.5
    problems = []
    for name, s, e, r in zip(names, shift.tolist(), error.tolist(), ratio.tolist(), strict=True):
        if s > SAMPLE_SHIFT + 3 * e:
            problems.append(f"{name}: the mean is off by {s:.2g} standard deviations of the data")
        elif count >= FEW_SAMPLES and not 1 / SAMPLE_SPREAD < r < SAMPLE_SPREAD:
            problems.append(f"{name}: the standard deviation is {r:.2g} times that of the data")
    return problems + _correlation_problems(names, drawn, train)


def _correlation_problems(names: list[str], drawn: Tensor, train: Tensor) -> list[str]:
    """Return a sentence for the pair of columns whose correlation differs most, if clearly."""
    if len(names) < 2 or min(len(drawn), len(train)) < FEW_SAMPLES:
        return []
    ours, true = torch.corrcoef(drawn.T), torch.corrcoef(train.T)
    difference = (ours - true).abs().nan_to_num(0.0).triu()
    i, j = divmod(int(difference.argmax()), len(names))
    if difference[i, j] <= SAMPLE_CORRELATION:
        return []
    return [
        f"the correlation of {names[i]} and {names[j]} is {ours[i, j]:.2f} instead of "
        f"{true[i, j]:.2f}"
    ]


def _milliseconds(saved: SavedModel) -> float:
    """Return the median time of an iteration, or the mean if none was logged."""
    logged = read_metrics(saved.run.folder / "metrics.jsonl")
    times = [record["milliseconds"] for record in logged if "milliseconds" in record]
    mean = 1000 * saved.progress["seconds"] / max(saved.progress["iterations"], 1)
    return statistics.median(times) if times else float(mean)


def _record(measurement: Measurement) -> Json:
    return to_json(dataclasses.asdict(measurement))
