"""Typicality, and AUCs compared with counts of pairs and torchmetrics."""

import math

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor
from torchmetrics.functional.classification import binary_auroc

from fdsm.evaluation import auc, ood_auc, ood_scores, typicality


def by_counting(inside: Tensor, outside: Tensor) -> float:
    wins = [
        1.0 if b > a else 0.5 if b == a else 0.0 for a in inside.tolist() for b in outside.tolist()
    ]
    return sum(wins) / len(wins)


@pytest.mark.parametrize("levels", [3, 1000])
def test_auc_counts_pairs_and_ties_half(levels: int, generator: Generator) -> None:
    inside = torch.randint(levels, (31,), generator=generator)
    outside = torch.randint(levels, (47,), generator=generator) + levels // 3
    assert auc(inside, outside).value == pytest.approx(by_counting(inside, outside), abs=1e-15)


def test_auc_agrees_with_torchmetrics(generator: Generator) -> None:
    inside = torch.randn(200, generator=generator)
    outside = torch.randn(300, generator=generator) + 0.7
    ranks = torch.cat([inside, outside]).argsort().argsort().double() / 500
    labels = torch.cat([torch.zeros(200), torch.ones(300)]).long()
    expected = binary_auroc(ranks, labels).item()
    assert auc(inside, outside).value == pytest.approx(expected, abs=1e-6)


def test_auc_depends_only_on_the_order_of_scores(generator: Generator) -> None:
    """Scores of thousands of nats must not saturate, as they do in a sigmoid."""
    inside = torch.randn(100, generator=generator)
    outside = torch.randn(100, generator=generator) + 1
    plain, large = auc(inside, outside), auc(1e5 + 1e3 * inside, 1e5 + 1e3 * outside)
    assert large.value == plain.value
    assert large.error == plain.error
    assert auc(outside, inside).value == pytest.approx(1 - plain.value)


def test_error_agrees_with_the_spread_over_samples(generator: Generator) -> None:
    """For N(0, 1) inside and N(δ, τ²) outside the area is Φ(δ / √(1 + τ²))."""
    truth = 0.5 * (1 + math.erf(0.8 / math.sqrt(2 * (1 + 3**2))))
    runs = [
        auc(
            torch.randn(30, generator=generator),
            torch.randn(200, generator=generator) * 3 + 0.8,
        )
        for _ in range(600)
    ]
    values = torch.tensor([run.value for run in runs])
    errors = torch.tensor([run.error for run in runs])
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(600)
    assert errors.mean().item() == pytest.approx(values.std().item(), rel=0.1)
    assert runs[0].settings == {
        "positive": "outside", "inside": 30, "outside": 200, "error": "DeLong",
    }  # fmt: skip


def test_nan_and_empty_sets_are_refused() -> None:
    ones = torch.ones(3)
    with pytest.raises(ValueError, match="1 and 0 NaN"):
        auc(torch.tensor([math.nan, 1.0]), ones)
    with pytest.raises(ValueError, match=r"\(3,\) and \(0,\)"):
        auc(ones, ones[:0])
    assert auc(ones[:1], ones).error is None


def test_typicality_of_groups_computed_by_hand() -> None:
    values, reference = torch.tensor([1.0, 3.0, -4.0, 0.0, 9.0]), torch.tensor([0.0, 2.0])
    assert typicality(values, reference).tolist() == [0, 2, 5, 1, 8]
    assert typicality(values, reference, m=2).tolist() == [1, 3]
    assert typicality(values, reference, m=5).tolist() == [pytest.approx(0.8)]
    with pytest.raises(ValueError, match="groups of 6"):
        typicality(values, reference, m=6)
    with pytest.raises(ValueError, match="groups of 0"):
        typicality(values, reference, m=0)


def log_density(x: Tensor) -> Tensor:
    return -x.square().sum(1) / 2


def test_scores_of_a_density(generator: Generator) -> None:
    reference, x = torch.randn(2, 50, 3, generator=generator)
    scores = ood_scores(log_density, reference, x, m=2, chunk=7)
    pairs = log_density(x).view(25, 2).mean(1)
    torch.testing.assert_close(scores, (pairs - log_density(reference).mean()).abs())
    constant = lambda x: log_density(x) + 1e3
    torch.testing.assert_close(ood_scores(constant, reference, x), scores)


def test_random_groups_have_the_same_examples(generator: Generator) -> None:
    reference, x = torch.randn(2, 40, 3, generator=generator)
    ordered = ood_scores(log_density, reference, x, m=1)
    single = ood_scores(log_density, reference, x, m=1, generator=generator)
    assert not torch.equal(single, ordered)
    assert torch.equal(single.sort().values, ordered.sort().values)
    again = [
        ood_scores(log_density, reference, x, m=2, generator=Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])


def test_auc_of_the_same_distribution_is_one_half(generator: Generator) -> None:
    train, *tests = torch.randn(3, 6000, 5, generator=generator)
    measured = ood_auc(log_density, train, *tests, m=2, generator=generator)
    assert measured.error is not None
    assert abs(measured.value - 0.5) < 4 * measured.error
    assert measured.error == pytest.approx(math.sqrt(1 / 6 / 3000), rel=0.1)
    assert measured.settings["m"] == 2
    assert measured.settings["inside"] == 3000
    assert measured.settings["reference"] == 6000


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 1.0), (0.0, 3.0)])
def test_error_includes_that_of_the_reference_mean(
    mean: float, deviation: float, generator: Generator
) -> None:
    """Inside N(0, 1), outside N(μ, τ²), 50 reference rows: the deviation of z is 1.

    With u = b - a and w = b + a the area is P(uw > 0). For μ = 1 the error comes from the slope
    of the area in the reference mean, which vanishes for μ = 0.
    """
    first = lambda x: x[:, 0]
    truth = sign_agreement(mean, deviation)
    z = []
    for _ in range(400):
        train = torch.randn(50, 1, generator=generator)
        inside, outside = torch.randn(2, 1000, 1, generator=generator)
        measured = ood_auc(first, train, inside, mean + deviation * outside, m=1)
        assert measured.error is not None
        z.append((measured.value - truth) / measured.error)
    assert torch.tensor(z).std().item() == pytest.approx(1, abs=3 / math.sqrt(2 * 400))


def sign_agreement(mean: float, deviation: float) -> float:
    """Return P(uw > 0) for u = b - a, w = b + a with a ~ N(0, 1) and b ~ N(μ, τ²)."""
    variance = deviation**2
    joint = stats.multivariate_normal(
        [mean, mean], [[variance + 1, variance - 1], [variance - 1, variance + 1]]
    )
    one_negative = stats.norm.cdf(-mean / math.sqrt(variance + 1))
    return float(1 - 2 * one_negative + 2 * joint.cdf([0.0, 0.0]))


def test_complete_separation_has_an_error() -> None:
    low, high = torch.zeros(9), torch.ones(99)
    for measured, value in ((auc(low, high), 1.0), (auc(high, low), 0.0)):
        assert measured.value == value
        assert measured.error == pytest.approx(0.1)
        assert measured.settings["error"] == "Wilson"
    assert auc(low, low + 0.0).settings["error"] == "DeLong"


def test_error_near_complete_separation_covers_the_true_value(generator: Generator) -> None:
    """One inside score in fifty is above all outside scores: the area is 0.98.

    No such score is drawn in 36 % of the samples, and the area is then measured as 1.
    """
    runs = [
        auc(2.0 * (torch.rand(50, generator=generator) < 0.02), torch.ones(50)) for _ in range(400)
    ]
    assert 100 < sum(run.value == 1 for run in runs) < 190
    covered = [abs(run.value - 0.98) <= 2 * (run.error or 0) for run in runs]
    assert sum(covered) > 0.95 * 400


def test_both_tails_are_detected_and_larger_groups_separate_better(generator: Generator) -> None:
    """Data with a density that is too high are detected as well as data where it is too low."""
    train, inside, other = torch.randn(3, 2000, 50, generator=generator)
    for factor in (0.85, 1.15):
        values = [
            ood_auc(log_density, train, inside, factor * other, m=m).value for m in (1, 2, 4)
        ]
        assert values[0] > 0.7
        assert values[0] < values[1] < values[2]
