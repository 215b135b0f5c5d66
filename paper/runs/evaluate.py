"""Evaluating a trained model: its metrics in `result.json`, and samples."""

import dataclasses
import math
import statistics
from typing import Any

import torch
from torch import Tensor

from ..data import Dataset
from ..data.split import fixed_shuffle
from fdsm.evaluation import (
    Measurement,
    auc,
    fit_gaussian,
    fit_gaussian_mixture,
    log_densities,
    mean_of,
    sm_losses,
)
from fdsm.extras import name_missing_extra
from ..recipes import CrossFittedEBM
from ..recipes.recipe import HasLogDensity
from fdsm.samplers import Progress
from fdsm.serialize import Json, to_json
from fdsm.tensors import dimension, randn_like
from fdsm.training.loggers import read_metrics
from fdsm.typing import LogDensity
from .density_grid import save_density_grid
from .samples import save_samples
from .saved_model import SavedModel
from fdsm.tables.summary import as_written, correlation, summarize_table

REFERENCE_ROWS = 10_000
"""Largest number of training rows to which reference densities are fitted."""
LOSS_ROWS, LOSS_ELEMENTS = 500, 20_000
"""Maximum number of rows, and of elements of all rows, for exact score-matching losses."""
MARGIN = 0.01
"""A reference with a smaller advantage is not reported as better: relative to the score-matching
loss of the Gaussian, or in nats of likelihood per dimension."""
SUMMARY_ROWS, SUMMARY_SCORES, CLASSIFIER_ROWS = 100_000, 2000, 1000
"""Largest numbers of rows in the summary of a table, of scores in it, and for the classifier."""
SAMPLE_SHIFT = 0.5
"""Largest accepted error of the mean of samples, in standard deviations of the data."""
SAMPLE_CORRELATION = 0.3
"""Samples with a correlation of two columns that is off by more are reported as wrong."""
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
        f, split = run.recipe.log_density(saved.model), data
        if isinstance(run.recipe, CrossFittedEBM):
            f, split = run.recipe.held_out_comparison(saved.model, data)
        compared = compare_with_references(saved, split, f, metrics.get("nll"))
        result["metrics"] |= {comparison["metric"]: comparison["model"] for comparison in compared}
        result["comparisons"] = compared
        problems += [
            sentence for comparison in compared for sentence in _lost_comparisons(comparison)
        ]
    if count := run.recipe.plan.sample_count(saved.progress["iterations"]):
        samples = saved.sample(count, progress)
        files = save_samples(run.folder, samples, saved.max_value, data.schema)
        result["samples"], result["num_samples"] = files[-1].name, count
        if isinstance(run.recipe, CrossFittedEBM):
            result["sample_auc"] = _write_table_summary(saved, data, samples)
        differences = sample_problems(samples, data)
        problems += [f"Samples differ from the data: {problem}." for problem in differences]
    if saved.shape == (2,) and isinstance(run.recipe, HasLogDensity):
        shown = data.test if len(data.test) else data.train[:REFERENCE_ROWS]
        x = data.transform.deterministic(shown).to(run.device)
        save_density_grid(run.folder, run.recipe, run.recipe.log_density(saved.model), x)
    result["problems"] = problems
    run.write("result.json", result)
    return result


def _write_table_summary(saved: SavedModel, data: Dataset, samples: Tensor) -> float | None:
    """Write `table.json` for the report. Return how well a classifier recognizes samples."""
    detector, schema = saved.detector, data.schema
    assert detector is not None
    assert schema is not None
    rows = data.train[:SUMMARY_ROWS]
    separation = classifier_auc(torch.from_numpy(as_written(schema, samples)), rows)
    summary = summarize_table(
        schema,
        rows,
        None,
        samples,
        saved.score(rows[:SUMMARY_SCORES], leave_one_out=True).score,
        detector.calibration.held_out_scores().cpu(),
        detector.calibration.held_out_p_values().cpu(),
        sample_auc=separation,
    )
    saved.run.write("table.json", summary)
    return separation


def classifier_auc(samples: Tensor, rows: Tensor) -> float | None:
    """Return how well a random forest separates samples from rows of a table.

    Args:
        samples: Codes of samples, shape `(S, C)`.
        rows: Codes of rows of the data, shape `(N, C)`.

    Returns:
        The AUC of out-of-bag predictions: 0.5 if it cannot separate them, 1 if it always can.
        `None` with fewer than 20 rows.
    """
    with name_missing_extra("evaluating samples of a table"):
        from sklearn.ensemble import RandomForestClassifier
    n = min(len(samples), len(rows), CLASSIFIER_ROWS)
    if n < 20:
        return None
    x = torch.cat([samples[:n], rows[:n]]).numpy()
    is_sample = torch.cat([torch.ones(n), torch.zeros(n)])
    forest = RandomForestClassifier(200, oob_score=True, random_state=0).fit(x, is_sample.numpy())
    votes = torch.from_numpy(forest.oob_decision_function_[:, 1]).nan_to_num(0.5)
    return auc(votes[n:], votes[:n]).value


def compare_with_references(
    saved: SavedModel,
    data: Dataset,
    f: LogDensity,
    estimated_nll: Measurement | None = None,
) -> list[dict[str, Any]]:
    """Compare a log-density with a Gaussian and a Gaussian mixture fitted to the same data.

    All are evaluated on the same test rows, with the same noise if the model is a density of noisy
    data. A reference is reported as better if its mean loss is lower than the model's by more than
    two standard errors of the paired differences, and by more than `MARGIN`.

    Args:
        saved: A model with a log-density.
        data: Its data set.
        f: The log-density, trained without the test rows.
        estimated_nll: The negative log-likelihood of an unnormalized model, if it was estimated.

    Returns:
        One record per metric: its name, the model's value, those of the references, and the names
        of the references that are better than the model.
    """
    run, recipe = saved.run, saved.run.recipe
    assert isinstance(recipe, HasLogDensity)
    generator = run.generator("references")

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
    names = data.columns
    drawn, train = samples.double(), data.train.double()
    if data.schema is not None:
        numeric = [i for i, levels in enumerate(data.schema.num_levels) if not levels]
        names = [data.schema.used[i].name for i in numeric]
        drawn, train = drawn[:, numeric], train[:, numeric]
    if names is None:
        names, drawn, train = ["all values"], drawn.reshape(-1, 1), train.reshape(-1, 1)
    if bool(drawn.isinf().any()) or (data.schema is None and bool(drawn.isnan().any())):
        return ["some samples are not finite"]
    if len(drawn) < 2 or not names:
        return []
    spread = _std(train).clamp_min(torch.finfo(torch.float32).tiny)
    shift = (drawn.nanmean(0) - train.nanmean(0)).abs() / spread
    count = (~drawn.isnan()).sum(0)
    error = (_std(drawn) / count**0.5) / spread
    ratio = _std(drawn) / spread
    problems = []
    numbers = (shift.tolist(), error.tolist(), ratio.tolist(), count.tolist())
    for name, s, e, r, n in zip(names, *numbers, strict=True):
        if s > SAMPLE_SHIFT + 3 * e:
            problems.append(f"{name}: the mean is off by {s:.2g} standard deviations of the data")
        elif n >= 50 and not 1 / SAMPLE_SPREAD < r < SAMPLE_SPREAD:
            problems.append(f"{name}: the standard deviation is {r:.2g} times that of the data")
    return problems + _correlation_problems(names, drawn, train)


def _std(x: Tensor) -> Tensor:
    """Return the standard deviation of the known cells of each column, shape `(C,)`."""
    count = (~x.isnan()).sum(0)
    return ((x - x.nanmean(0)).square().nansum(0) / (count - 1).clamp_min(1)).sqrt()


def _correlation_problems(names: list[str], drawn: Tensor, train: Tensor) -> list[str]:
    """Return a sentence for the pair of columns whose correlation differs most, if clearly."""
    if len(names) < 2:
        return []
    ours, true = (torch.from_numpy(correlation(x.numpy())) for x in (drawn, train))
    masks = [(~x.isnan()).double() for x in (drawn, train)]
    rows = torch.stack([mask.T @ mask for mask in masks]).amin(0)  # with cells in both columns
    difference = (ours - true).abs().nan_to_num(0.0).masked_fill(rows < 50, 0.0).triu()
    worst = int(difference.argmax())
    i, j = divmod(worst, len(names))
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
