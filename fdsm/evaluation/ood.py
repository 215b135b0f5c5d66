r"""Out-of-distribution detection with the typicality of the log-density.

A high density does not mean that an example is in distribution: models of CIFAR-10 give higher
densities to SVHN. The typicality test of a group of $M$ examples measures the distance of its mean
log-density from that of the training data:

$$\left| \frac1M \sum_{m=1}^M \log p(x_m) - \frac1N \sum_{n=1}^N \log p(x_n^{train}) \right|$$

Large values indicate out-of-distribution data. The constant $\log Z$ cancels.

Reference:
    Nalisnick et al. (2019), https://arxiv.org/abs/1906.02994.
    Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 4.
"""

import math

import torch
from torch import Generator, Tensor

from ..tensors import require_values
from ..typing import LogDensity
from .likelihood import log_densities
from .measurement import Measurement


def typicality(values: Tensor, reference: Tensor, m: int = 1) -> Tensor:
    """Return the distance of the mean log-density of each group from that of the reference.

    Args:
        values: Log-densities, shape `(N,)`. Each group has `m` consecutive values; an incomplete
            last group is dropped.
        reference: Log-densities of training data, shape `(M,)`.
        m: Group size. With one, each value has its own distance.

    Returns:
        The distances, shape `(N // m,)`, in float64.

    Raises:
        ValueError: If there is no complete group.

    Example:
        >>> typicality(torch.tensor([1.0, 3.0, -4.0, 0.0, 9.0]), torch.tensor([0.0, 2.0]), m=2)
        tensor([1., 3.], dtype=torch.float64)
    """
    require_values(values)
    require_values(reference)
    if not 1 <= m <= len(values):
        raise ValueError(f"cannot form groups of {m} from {len(values)} values")
    groups = values.double()[: len(values) // m * m].view(-1, m)
    return (groups.mean(1) - reference.double().mean()).abs()


def ood_scores(
    log_density: LogDensity,
    reference: Tensor,
    x: Tensor,
    *,
    m: int = 2,
    chunk: int = 1000,
    generator: Generator | None = None,
) -> Tensor:
    """Return the typicality of groups of examples; large values are out of distribution.

    Args:
        log_density: The model, `(N, *E) -> (N,)`, up to a constant.
        reference: Training data, shape `(N, *E)`.
        x: The examples to test, shape `(B, *E)`.
        m: Group size. An incomplete last group is dropped.
        chunk: Number of rows per call of the model, which limits the memory.
        generator: Random number generator for random groups. Default: consecutive rows, which are
            not suitable if the data are sorted, for example by class.

    Returns:
        The scores, shape `(B // m,)`.
    """
    values = log_densities(log_density, reference, chunk=chunk)
    return typicality(_shuffled(log_densities(log_density, x, chunk=chunk), generator), values, m)


def auc(inside: Tensor, outside: Tensor) -> Measurement:
    r"""Return the area under the ROC curve, with out-of-distribution examples as positives.

    $$\mathrm{AUC} = P(S_{out} > S_{in}) + \tfrac12 P(S_{out} = S_{in})$$

    It depends only on the order of the scores. The standard error is that of DeLong for two
    independent samples.

    If the sets are completely separated, DeLong's error is zero. The error is then the upper
    limit of Wilson's one-sigma interval for no failures in $n$ trials, $1 / (n + 1)$, where $n$
    is the size of the smaller set.

    Reference:
        DeLong et al. (1988), Comparing the areas under two or more correlated receiver operating
        characteristic curves: a nonparametric approach.
        Wilson (1927), Probable inference, the law of succession, and statistical inference.

    Args:
        inside: Scores of in-distribution examples, shape `(N,)`.
        outside: Scores of out-of-distribution examples, shape `(M,)`.

    Returns:
        The area. There is no standard error if a set has only one score.

    Raises:
        ValueError: If a set is empty or has NaN.

    Example:
        >>> auc(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])).value
        0.875
    """
    require_values(inside)
    require_values(outside)
    inside, outside = inside.double(), outside.double()
    for scores in (inside, outside):
        if scores.ndim != 1 or len(scores) == 0 or scores.isnan().any():
            raise ValueError(
                "an AUC needs two sets of scores without NaN, but got shapes "
                f"{tuple(inside.shape)} and {tuple(outside.shape)} with "
                f"{inside.isnan().sum()} and {outside.isnan().sum()} NaN"
            )
    above, below = _fraction_below(outside, inside), _fraction_below(inside, outside)
    n = min(len(inside), len(outside))
    value, error, name = above.mean().item(), None, "DeLong"
    if n > 1:
        error = math.sqrt(above.var().item() / len(outside) + below.var().item() / len(inside))
    if n > 1 and value in {0.0, 1.0}:
        error, name = 1 / (n + 1), "Wilson"
    return Measurement(value, error).with_settings(
        positive="outside", inside=len(inside), outside=len(outside), error=name
    )


def ood_auc(
    log_density: LogDensity,
    train: Tensor,
    test_in: Tensor,
    test_out: Tensor,
    *,
    m: int = 2,
    chunk: int = 1000,
    generator: Generator | None = None,
) -> Measurement:
    r"""Return how well typicality separates other data from in-distribution test data.

    The mean log-density $r$ of the training data is an estimate with a standard error $h$. The
    variance of the AUC over $r' ∼ N(r, h²)$ is added to that of `auc`. The three-point
    Gauss-Hermite rule, $r' = r$ and $r ± \sqrt3 h$ with weights 2/3 and 1/6, gives this
    variance to second order in $h$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 4, with `m=2`.

    Args:
        log_density: The model, `(N, *E) -> (N,)`.
        train: Training data, the reference, shape `(N, *E)`.
        test_in: Test data from the same distribution, shape `(B, *E)`.
        test_out: Data from another distribution, of the same event shape.
        m: Group size.
        chunk: Number of rows per call of the model, which limits the memory.
        generator: Random number generator for random groups. Default: consecutive rows.

    Returns:
        The AUC: 0.5 without separation, 1 with complete separation.

    Example:
        >>> normal = lambda x: -x.square().sum(1) / 2
        >>> g = Generator().manual_seed(0)
        >>> train, test, other = torch.randn(3, 1000, 20, generator=g)
        >>> print(ood_auc(normal, train, test, 3 * other))
        1.0000 ± 0.0020
    """
    reference, inside, outside = (
        log_densities(log_density, x, chunk=chunk) for x in (train, test_in, test_out)
    )
    inside, outside = _shuffled(inside, generator), _shuffled(outside, generator)
    step = math.sqrt(3 * reference.var().item() / len(reference)) if len(reference) > 1 else 0.0
    below, center, above = (
        auc(*(typicality(values, reference + shift, m) for values in (inside, outside)))
        for shift in (-step, 0.0, step)
    )
    error = center.error
    if error is not None:
        error = math.hypot(error, _deviation(below.value, center.value, above.value))
    settings = {**center.settings, "m": m, "reference": len(reference)}
    return Measurement(center.value, error, settings)


def _deviation(below: float, center: float, above: float) -> float:
    """Return the standard deviation of values with the weights 1/6, 2/3 and 1/6."""
    mean = (below + 4 * center + above) / 6
    squares = (below - mean) ** 2 + 4 * (center - mean) ** 2 + (above - mean) ** 2
    return math.sqrt(squares / 6)


def _fraction_below(scores: Tensor, others: Tensor) -> Tensor:
    """Return the fraction of the others below each score. Ties count half."""
    others = others.sort().values
    below, not_above = (torch.searchsorted(others, scores, right=r) for r in (False, True))
    return (below + not_above).double() / (2 * len(others))


def _shuffled(values: Tensor, generator: Generator | None) -> Tensor:
    if generator is None:
        return values
    order = torch.randperm(len(values), generator=generator, device=generator.device)
    return values[order.to(values.device)]
