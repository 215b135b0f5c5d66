"""Compare a model with reference densities, and samples with rows of the table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..extras import name_missing_extra
from ..measurement import Measurement

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..typing import LogDensity
    from .schema import TableSchema

Array = NDArray[np.float64]

REFERENCE_ROWS = 10_000
"""Largest number of rows to which reference densities are fitted."""
LOSS_ROWS, LOSS_ELEMENTS = 500, 20_000
"""Largest number of rows, and of inputs of all rows, for exact score-matching losses."""
MARGIN = 0.01
"""A reference with a smaller advantage, relative to the loss of the Gaussian, is not better."""
CLASSIFIER_ROWS, MIN_CLASSIFIER_ROWS = 1000, 20
"""Largest and smallest number of samples, and of rows, for the classifier."""
SAMPLE_SHIFT = 0.5
"""Largest accepted error of the mean of samples, in standard deviations of the rows."""
SAMPLE_SPREAD = 2.0
"""Largest accepted factor between the standard deviations of samples and rows."""
SAMPLE_CORRELATION = 0.3
"""Largest accepted error of a correlation of two columns."""
MIN_CELLS = 50
"""Spreads and correlations of fewer cells are not compared."""


@dataclass(frozen=True)
class Reference:
    """A density fitted to the same rows as a model.

    Attributes:
        name: Its name.
        loss: Its exact score-matching loss on held-out rows.
        is_better: Whether it is clearly better than the model.
    """

    name: str
    loss: Measurement
    is_better: bool


@dataclass(frozen=True)
class Comparison:
    """Exact score-matching losses of a model and of references on held-out rows.

    Attributes:
        loss: The loss of the model. Lower is better.
        references: The references.
    """

    loss: Measurement
    references: tuple[Reference, ...]


def compare_densities(
    log_density: "LogDensity",
    train: "Tensor",
    held_out: "Tensor",
    *,
    noise: float,
    generator: "Generator | None" = None,
) -> Comparison:
    """Compare a log-density with a Gaussian and a Gaussian mixture fitted to the same rows.

    All are evaluated on the same held-out rows with the same noise. A reference is better if its
    mean loss is lower by more than two standard errors of the paired differences, and by more than
    `MARGIN` of the loss of the Gaussian.

    Args:
        log_density: The log-density of rows with noise, trained without the held-out rows.
        train: Inputs of the rows that it was trained on, shape `(N, D)`.
        held_out: Inputs of other rows, shape `(M, D)`.
        noise: Standard deviation of the noise.
        generator: Random number generator of the noise and of the mixture.

    Returns:
        The losses.
    """
    from ..evaluation import fit_gaussian, fit_gaussian_mixture, mean_of, sm_losses
    from ..tensors import randn_like

    count = max(1, min(LOSS_ROWS, LOSS_ELEMENTS // held_out.shape[1]))
    x = held_out[:count] + noise * randn_like(held_out[:count], generator)
    train = train[:REFERENCE_ROWS]
    references = {"Gaussian": fit_gaussian(train, noise=noise)}
    mixture = fit_gaussian_mixture(train, noise=noise, generator=generator)
    if mixture is not None:
        references["Gaussian mixture"] = mixture
    losses = {name: reference.sm_losses(x) for name, reference in references.items()}
    margin = MARGIN * abs(losses["Gaussian"].mean().item())
    own = sm_losses(log_density, x).double()
    compared = []
    for name, each in losses.items():
        difference = mean_of(own - each)
        is_better = not difference.value <= max(2 * (difference.error or 0.0), margin)
        compared.append(Reference(name, mean_of(each), is_better))
    return Comparison(mean_of(own), tuple(compared))


def classifier_auc(samples: "Tensor", rows: "Tensor") -> float | None:
    """Return how well a random forest separates samples from rows of a table.

    Args:
        samples: Codes of samples, shape `(S, C)`.
        rows: Codes of rows of the table, shape `(N, C)`.

    Returns:
        The AUC of out-of-bag predictions: 0.5 if it cannot separate them, 1 if it always can.
        `None` with fewer than 20 samples or rows.
    """
    with name_missing_extra("evaluating samples of a table"):
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.metrics import roc_auc_score
    n = min(len(samples), len(rows), CLASSIFIER_ROWS)
    if n < MIN_CLASSIFIER_ROWS:
        return None
    x = np.concatenate([samples[:n].numpy(), rows[:n].numpy()])
    is_sample = np.repeat([1, 0], n)
    forest = RandomForestClassifier(200, oob_score=True, random_state=0).fit(x, is_sample)
    votes = np.nan_to_num(forest.oob_decision_function_[:, 1], nan=0.5)
    return float(roc_auc_score(is_sample, votes))


def sample_problems(schema: "TableSchema", samples: Array, rows: Array) -> list[str]:
    """Return the clear differences between samples and rows in mean, spread and correlation.

    Args:
        schema: Types of the columns. Numbers and dates are compared.
        samples: Codes of samples, shape `(S, C)`. NaN where a cell is missing.
        rows: Codes of rows of the table, shape `(N, C)`.

    Returns:
        One sentence for each problem.
    """
    numbers = [index for index, levels in enumerate(schema.num_levels) if not levels]
    names = [schema.used[index].name for index in numbers]
    drawn, data = samples[:, numbers], rows[:, numbers]
    if np.isinf(drawn).any():
        return ["Some samples are not finite. Leave them out, or train again with another seed."]
    problems = []
    for name, ours, theirs in zip(names, drawn.T, data.T, strict=True):
        ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
        if len(ours) < 2 or len(theirs) < 2:
            continue
        spread = max(theirs.std(ddof=1), float(np.finfo(np.float32).tiny))
        shift = abs(ours.mean() - theirs.mean()) / spread
        ratio = ours.std(ddof=1) / spread
        if shift > SAMPLE_SHIFT + 3 * ratio / len(ours) ** 0.5:
            problems.append(
                f"{name}: the mean of the samples is off by {shift:.2g} standard deviations of "
                f"the rows. Do not use samples where the mean of {name} matters."
            )
        elif len(ours) >= MIN_CELLS and not 1 / SAMPLE_SPREAD < ratio < SAMPLE_SPREAD:
            problems.append(
                f"{name}: the standard deviation of the samples is {ratio:.2g} times that of the "
                f"rows. Do not use samples where the spread of {name} matters."
            )
    return problems + _correlation_problems(names, drawn, data)


def _correlation_problems(names: list[str], samples: Array, rows: Array) -> list[str]:
    """Return a sentence for the pair of columns whose correlation differs most, if clearly."""
    if len(names) < 2:
        return []
    ours, true = correlation(samples), correlation(rows)
    counts = [(~np.isnan(x)).T.astype(float) @ ~np.isnan(x) for x in (samples, rows)]
    compared = np.minimum(*counts) >= MIN_CELLS
    difference = np.where(compared, np.nan_to_num(np.abs(ours - true)), 0.0)
    i, j = np.unravel_index(np.triu(difference).argmax(), difference.shape)
    if difference[i, j] <= SAMPLE_CORRELATION:
        return []
    return [
        f"The correlation of {names[i]} and {names[j]} is {ours[i, j]:.2f} in the samples instead "
        f"of {true[i, j]:.2f}. Do not use samples where this relation matters."
    ]


def correlation(values: Array) -> Array:
    """Return the Pearson correlations of columns, each from the rows where both are present.

    Args:
        values: Shape `(N, C)`. NaN where a cell is missing.

    Returns:
        The matrix, shape `(C, C)`. NaN where one of the columns has a single value.
    """
    present = ~np.isnan(values)
    scale = np.abs(np.where(present, values, 0)).max(0, initial=0.0)
    x = np.where(present, values / np.where(scale > 0, scale, 1), 0)
    mask = present.astype(float)
    x = np.where(present, x - x.sum(0) / np.maximum(mask.sum(0), 1), 0)
    count = np.maximum(mask.T @ mask, 1)
    sums, squares = x.T @ mask, np.square(x).T @ mask
    covariance = x.T @ x - sums * sums.T / count
    variance = squares - np.square(sums) / count
    # below this the variance is rounding error of the sums of squares
    variance = np.where(variance > 1e-12 * np.maximum(squares, 1e-300), variance, np.nan)
    return np.asarray((covariance / np.sqrt(variance * variance.T)).clip(-1, 1))


def kolmogorov_distance(first: Array, second: Array) -> float | None:
    """Return the largest difference of two empirical distribution functions.

    Args:
        first: Numbers. NaN means missing.
        second: Numbers. NaN means missing.

    Returns:
        The Kolmogorov-Smirnov distance, or `None` if one of the arrays has no values.
    """
    a, b = (np.sort(column[~np.isnan(column)]) for column in (first, second))
    if not len(a) or not len(b):
        return None
    values = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(column, values, side="right") / len(column) for column in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def total_variation(first: Array, second: Array) -> float | None:
    """Return half the sum of the absolute differences of the shares of categories.

    Args:
        first: Indices of categories. NaN means missing.
        second: Indices of categories. NaN means missing.

    Returns:
        The total variation distance, or `None` if one of the arrays has no values.
    """
    a, b = (column[~np.isnan(column)].astype(int) for column in (first, second))
    if not len(a) or not len(b):
        return None
    size = int(max(a.max(), b.max())) + 1
    shares = [np.bincount(column, minlength=size) / len(column) for column in (a, b)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
