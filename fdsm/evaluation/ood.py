r"""Detection of data that a density was not trained on, by typicality.

High density is not a sign of belonging: a model of CIFAR-10 gives SVHN higher densities. A
group of $M$ examples is out of distribution if its mean log-density is far from that of the
training data, on either side:

$$\left| \frac1M \sum_{m=1}^M \log p(x_m) - \frac1N \sum_{n=1}^N \log p(x_n^{train}) \right|$$

The constant $\log Z$ cancels.

Reference:
    Nalisnick et al. (2019), https://arxiv.org/abs/1906.02994.
    Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 4.
"""

import math

import torch
from torch import Generator, Tensor

from ..typing import LogDensity
from .likelihood import log_densities
from .measurement import Measurement


def typicality(values: Tensor, reference: Tensor, m: int = 1) -> Tensor:
    """Return how far the mean log-density of each group is from that of the reference.

    Args:
        values: Log-densities, shape `(N,)`. Every `m` that follow each other are a group, and
            a rest is left out.
        reference: Log-densities of training data, of any number.
        m: The size $M$ of a group.

    Returns:
        The distances, shape `(N // m,)`.

    Raises:
        ValueError: If there is not one whole group.

    Example:
        >>> typicality(torch.tensor([1.0, 3.0, -4.0, 0.0, 9.0]), torch.tensor([0.0, 2.0]), m=2)
        tensor([1., 3.], dtype=torch.float64)
    """
    if not 1 <= m <= len(values):
        raise ValueError(f"groups of {m} cannot be made of {len(values)} values")
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
    """Return the typicality of groups of examples: the larger, the less they belong.

    Args:
        log_density: The model, `(N, *E) -> (N,)`; its constant does not matter.
        reference: Training data, shape `(N, *E)`.
        x: The examples in question, shape `(B, *E)`.
        m: The size $M$ of a group; a rest of fewer is left out.
        chunk: How many rows at a time.
        generator: For groups at random; without it they are neighbours, which is wrong for data
            sorted by class.

    Returns:
        The scores, shape `(B // m,)`.
    """
    values = log_densities(log_density, reference, chunk=chunk)
    return typicality(_shuffled(log_densities(log_density, x, chunk=chunk), generator), values, m)


def auc(inside: Tensor, outside: Tensor) -> Measurement:
    r"""Return the probability that an outsider scores higher, a tie being half a success.

    $$\mathrm{AUC} = P(S_{out} > S_{in}) + \tfrac12 P(S_{out} = S_{in})$$

    It is the area under the ROC curve with out-of-distribution as positive. Only the order of
    the scores counts. The standard error is DeLong's: the two sets are independent samples, and
    each enters through the variance of its members' mean success.

    If the sets are completely separated, DeLong's error is zero. The error is then the upper
    limit of Wilson's one-sigma interval for no failures in $n$ trials, $1 / (n + 1)$, where $n$
    is the size of the smaller set.

    Reference:
        DeLong et al. (1988), Comparing the areas under two or more correlated receiver operating
        characteristic curves: a nonparametric approach.
        Wilson (1927), Probable inference, the law of succession, and statistical inference.

    Args:
        inside: Scores of examples from the training distribution, shape `(N,)`.
        outside: Scores of others, shape `(M,)`.

    Returns:
        The area; without an error where a set has fewer than two.

    Raises:
        ValueError: If a set is empty or holds something that is not a number.

    Example:
        >>> auc(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])).value
        0.875
    """
    inside, outside = inside.double(), outside.double()
    for scores in (inside, outside):
        if scores.ndim != 1 or len(scores) == 0 or scores.isnan().any():
            raise ValueError(
                "an AUC needs two lists of scores without NaN, but got shapes "
                f"{tuple(inside.shape)} and {tuple(outside.shape)} with "
                f"{inside.isnan().sum()} and {outside.isnan().sum()} NaN"
            )
    above, below = _share_below(outside, inside), _share_below(inside, outside)
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
    r"""Return how well typicality tells other data from test data of the training distribution.

    The mean log-density $r$ of the training data is an estimate with a standard error $h$. The
    variance of the area over $r' ∼ N(r, h²)$ is added to that of `auc`. The three-point
    Gauss-Hermite rule, $r' = r$ and $r ± \sqrt3 h$ with weights 2/3 and 1/6, gives this
    variance to second order in $h$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 4, with `m=2`.

    Args:
        log_density: The model, `(N, *E) -> (N,)`.
        train: Training data, which set the typical log-density, shape `(N, *E)`.
        test_in: Test data from the same distribution, shape `(B, *E)`.
        test_out: Data from another, brought to the same shape.
        m: The size $M$ of a group.
        chunk: How many rows at a time.
        generator: For groups at random; without it they are neighbours.

    Returns:
        The area under the ROC curve: 0.5 if nothing can be told, 1 if all can.

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
    below, centre, above = (
        auc(*(typicality(values, reference + shift, m) for values in (inside, outside)))
        for shift in (-step, 0.0, step)
    )
    error = centre.error
    if error is not None:
        error = math.hypot(error, _deviation(below.value, centre.value, above.value))
    settings = {**centre.settings, "m": m, "reference": len(reference)}
    return Measurement(centre.value, error, settings)


def _deviation(below: float, centre: float, above: float) -> float:
    """Return the standard deviation of values with the weights 1/6, 2/3 and 1/6."""
    mean = (below + 4 * centre + above) / 6
    squares = (below - mean) ** 2 + 4 * (centre - mean) ** 2 + (above - mean) ** 2
    return math.sqrt(squares / 6)


def _share_below(scores: Tensor, others: Tensor) -> Tensor:
    """Return for each score the share of the others below it, ties counted half."""
    others = others.sort().values
    below, not_above = (torch.searchsorted(others, scores, right=r) for r in (False, True))
    return (below + not_above).double() / (2 * len(others))


def _shuffled(values: Tensor, generator: Generator | None) -> Tensor:
    if generator is None:
        return values
    order = torch.randperm(len(values), generator=generator, device=generator.device)
    return values[order.to(values.device)]
