"""Scores and p-values of measures whose distribution is known."""

import math

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from fdsm.tables.outliers import Calibration

HIGH_DENSITY = 0.02
"""Share of the level for small values of the measure, which are those of high density."""
SHARES = torch.tensor([1 - HIGH_DENSITY, HIGH_DENSITY], dtype=torch.float64)
BOTH_SIDES = torch.tensor([[1.0], [-1.0]])


def single_fold(z: Tensor) -> Calibration:
    """The calibration of one measure by one model."""
    return Calibration.fit(z[None], torch.zeros(len(z), dtype=torch.long), BOTH_SIDES, SHARES)


def as_values(z: Tensor) -> Tensor:
    """One measure and one fold, shape `(1, 1, N)`."""
    return z[None, None]


@pytest.mark.parametrize("folds", [1, 4])
def test_p_values_of_new_rows_of_the_same_distribution_are_uniform(
    folds: int, generator: Generator
) -> None:
    """Two measures, skewed and normal. With K folds, each has the measures of its own model."""
    draw = lambda *shape: torch.stack([
        torch.rand(shape, generator=generator).log().neg(),
        100 + 30 * torch.randn(shape, generator=generator),
    ])
    fold = torch.arange(4000) % folds
    fitted = Calibration.fit(draw(4000), fold, torch.tensor([[0.5, 1.0], [-1.0, 0.0]]), SHARES)
    p = fitted.p_value(draw(1, 2000).expand(2, folds, 2000))
    # The smallest and the largest p-value are 1/4001 and 1, so the distribution is discrete.
    assert stats.kstest(p.numpy(), "uniform").pvalue > 0.01
    assert (p < 0.05).double().mean().item() == pytest.approx(0.05, abs=0.015)


def test_p_value_counts_the_held_out_rows_of_each_fold_by_its_own_model() -> None:
    """By hand: p = (1 + Σ_k #{i in fold k: s_i ≥ s_k(x)}) / (n + 1)."""
    held_out = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    folds = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
    fitted = Calibration.fit(held_out[None], folds, BOTH_SIDES, SHARES)
    # The row is 5.5 by the model of fold 0 and 2.5 by that of fold 1.
    x = torch.tensor([[[5.5], [2.5]]])
    known, new = fitted.held_out_scores(), fitted.fold_scores(x)[:, 0]
    count = sum(
        int(known[i] >= new[0 if i % 2 == 0 else 1]) for i in range(8)
    )  # 6 of fold 0; 3, 5 and 7 of fold 1
    assert count == 4
    assert fitted.p_value(x).tolist() == pytest.approx([5 / 9])


def beyond(score: Tensor, n: int) -> Tensor:
    """The score of n held-out rows as it is shown: the part beyond the data is compressed."""
    end = math.log10(n + 1)
    return torch.where(score > end, end + (1 + (score - end).clamp_min(0)).log10(), score)


def test_score_is_minus_the_logarithm_of_the_tail_probability() -> None:
    """For exponential measures, P(Z ≥ z) = exp(-z), in the range of the data and beyond."""
    n = 5000
    z = -torch.log1p(-(torch.arange(n) + 0.5) / n)
    fitted = single_fold(z)
    new = torch.tensor([1.0, 2.0, 5.0, 12.0, 40.0])
    expected = (new + math.log(1 - HIGH_DENSITY)) / math.log(10)
    score = fitted.score(as_values(new))
    torch.testing.assert_close(score, beyond(expected, n), rtol=0.02, atol=0.01)
    assert score[3] > math.log10(n + 1)  # the last two are beyond the data
    inside = torch.tensor([z[-5], z[-50]])  # of 5 and 50 rows in 5,000
    ranks = -torch.tensor([5.0, 50.0]).div(n + 1).log10() + math.log10(1 - HIGH_DENSITY)
    torch.testing.assert_close(fitted.score(as_values(inside)), ranks, rtol=0, atol=1e-6)


def test_an_error_among_the_held_out_rows_has_the_score_of_its_rank() -> None:
    """Rows a thousand deviations away do not stretch the scores of the others.

    With 999 rows, errors are not looked for.
    """
    z = torch.cat([torch.linspace(0, 1, 994), torch.full((5,), 1000.0)])
    fitted = single_fold(z)
    score = fitted.score(as_values(torch.tensor([1.0, 1000.0])))
    ranks = -torch.tensor([6.0, 5.0]).div(1000).log10() + math.log10(1 - HIGH_DENSITY)
    torch.testing.assert_close(score, ranks, rtol=0, atol=1e-6)


def test_scores_are_never_absurd(generator: Generator) -> None:
    """A row a billion deviations away is at most about 10, and farther away than others."""
    fitted = single_fold(torch.randn(100, generator=generator))
    score = fitted.score(as_values(torch.tensor([1e1, 1e3, 1e9])))
    assert (score.diff() > 1).all()
    assert score[-1] < math.log10(101) + 9.5


def test_rows_of_suspiciously_high_density_are_found(generator: Generator) -> None:
    """Rows stuck at the mode of a 20-dimensional Gaussian, where no other row is."""
    energy = torch.randn(2000, 20, generator=generator).square().sum(1) / 2
    fitted = single_fold(energy)
    stuck, typical = torch.tensor([0.0]), torch.tensor([10.0])
    assert fitted.p_value(as_values(stuck)).item() < 0.02
    assert fitted.p_value(as_values(typical)).item() > 0.3
    low, high = (fitted.score(as_values(torch.tensor([z]))).item() for z in (40.0, 0.0))
    assert low > high > 1.3


def test_share_of_the_level_for_high_density() -> None:
    """For P(Z ≥ z) = P(Z ≤ -z) = exp(-z) / 2, both tests have closed forms."""
    half = -torch.log(2 * (torch.arange(2500) + 0.5) / 5000)
    fitted = single_fold(torch.cat([half, -half]))
    new = torch.tensor([3.0, 6.0, 20.0])
    log_tail = (-new - math.log(2)) / math.log(10)
    torch.testing.assert_close(
        fitted.score(as_values(new)),
        beyond(-(log_tail - math.log10(1 - HIGH_DENSITY)), 5000),
        rtol=0.02,
        atol=0.01,
    )
    torch.testing.assert_close(
        fitted.score(as_values(-new))[1:],
        beyond(-(log_tail - math.log10(HIGH_DENSITY))[1:], 5000),
        rtol=0.02,
        atol=0.01,
    )
    # P(Z ≤ -3) = 0.025 is above the level for high density, so the first test decides.
    normal = -math.log10((1 - math.exp(-3) / 2) / (1 - HIGH_DENSITY))
    assert fitted.score(as_values(-new))[0].item() == pytest.approx(normal, abs=0.001)


@pytest.mark.parametrize("sign", [1, -1])
def test_score_grows_beyond_the_range_of_the_held_out_rows(
    sign: int, generator: Generator
) -> None:
    z = torch.randn(300, generator=generator)
    fitted = single_fold(z)
    beyond = sign * torch.linspace(4, 400, 100)
    assert (fitted.score(as_values(beyond)).diff() > 0).all()


def test_score_is_monotone_on_each_side_of_its_minimum(generator: Generator) -> None:
    fitted = single_fold(torch.randn(300, generator=generator))
    scores = fitted.score(as_values(torch.linspace(-6, 6, 500)))
    lowest = int(scores.argmin())
    assert (scores[: lowest + 1].diff() <= 1e-12).all()
    assert (scores[lowest:].diff() >= -1e-12).all()


def test_equal_rows_have_p_value_1_and_any_other_row_the_smallest() -> None:
    """Ties count as at least as unusual."""
    fitted = single_fold(torch.full((50,), 3.0))
    p = fitted.p_value(as_values(torch.tensor([3.0, 4.0, 2.0])))
    assert p.tolist() == pytest.approx([1.0, 1 / 51, 1 / 51])


def test_ties_are_at_least_as_unusual() -> None:
    """Of 100 rows, 40 have the value 1 and the others 0: a row of value 1 has p = 41/101."""
    fitted = single_fold(torch.tensor([1.0] * 40 + [0.0] * 60))
    p = fitted.p_value(as_values(torch.tensor([1.0, 0.0])))
    assert p.tolist() == pytest.approx([41 / 101, 1.0])


def test_measures_are_centered_scaled_and_weighted() -> None:
    """Both measures have median 0 and range 1 between the quantiles after scaling."""
    ranks = torch.linspace(0, 1, 1001)
    values = torch.stack([8 * ranks, -3 + 0.5 * ranks.flip(0)])
    fitted = Calibration.fit(
        values, torch.zeros(1001).long(), torch.tensor([[0.5, 2.0], [-1.0, 0.0]]), SHARES
    )
    torch.testing.assert_close(fitted.center, torch.tensor([4.0, -2.75]))
    torch.testing.assert_close(fitted.scale, torch.tensor([6.4, 0.4]))
    expected = 0.5 * (ranks - 0.5) / 0.8 - 2.0 * (ranks - 0.5) / 0.8
    torch.testing.assert_close(fitted.held_out[0], expected)
    torch.testing.assert_close(fitted.held_out[1], (0.5 - ranks) / 0.8)


def test_score_of_a_row_is_the_mean_over_folds(generator: Generator) -> None:
    fitted = Calibration.fit(
        torch.randn(1, 400, generator=generator), torch.arange(400) % 2, BOTH_SIDES, SHARES
    )
    x = torch.tensor([[[0.5, 3.0], [2.0, 3.0]]])
    by_fold = fitted.fold_scores(x)
    assert by_fold.shape == (2, 2)
    torch.testing.assert_close(fitted.score(x), by_fold.mean(0))
    alone = fitted.fold_scores(torch.tensor([[[2.0, 3.0]]]))
    torch.testing.assert_close(by_fold[1], alone[0])


@pytest.mark.parametrize("folds", [1, 4])
def test_p_values_of_held_out_rows_leave_out_their_own_fold(
    folds: int, generator: Generator
) -> None:
    """By loops. With one fold, each row is compared with all other rows."""
    fold = torch.arange(101) % folds
    fitted = Calibration.fit(torch.randn(1, 101, generator=generator), fold, BOTH_SIDES, SHARES)
    scores, expected = fitted.held_out_scores().tolist(), []
    for i in range(101):
        others = [s for j, s in enumerate(scores) if (fold[j] != fold[i] if folds > 1 else i != j)]
        expected.append((1 + sum(s >= scores[i] for s in others)) / (len(others) + 1))
    assert fitted.held_out_p_values().tolist() == pytest.approx(expected)
    assert stats.kstest(expected, "uniform").pvalue > 0.01


@pytest.mark.parametrize("n", [4, 10, 19, 30, 49])
def test_few_held_out_rows_have_scores_of_the_same_size(n: int) -> None:
    """For P(Z ≥ z) = exp(-z), at the quantiles: the tail beyond the data has the right slope."""
    z = -torch.log1p(-(torch.arange(n) + 0.5) / n)
    fitted = single_fold(z)
    new = torch.tensor([5.0, 10.0, 20.0])
    expected = (new + math.log(1 - HIGH_DENSITY)) / math.log(10)
    torch.testing.assert_close(
        fitted.score(as_values(new)), beyond(expected, n), rtol=0.25, atol=0.0
    )
    # A density slightly above all others is no reason for a large score.
    assert fitted.score(as_values(z[:1] - 0.01)).item() < 1


def test_row_beyond_all_held_out_rows_is_at_most_as_likely_as_the_rarest() -> None:
    """The largest value has the probability 1/101, and larger ones have less."""
    z = torch.cat([torch.zeros(50), torch.linspace(0, 1, 50)])
    fitted = single_fold(z)
    limit = math.log10(101) + math.log10(1 - HIGH_DENSITY)
    inside, beyond = fitted.score(as_values(torch.tensor([1.0, 1.0001]))).tolist()
    assert inside == pytest.approx(limit)  # the rank of the largest value
    assert beyond > limit
    limit += math.log10(HIGH_DENSITY) - math.log10(1 - HIGH_DENSITY)
    assert fitted.score(as_values(torch.tensor([-0.1]))).item() >= limit


def test_the_two_tests_have_their_own_measures(generator: Generator) -> None:
    """Low density is tested by the first measure here, high density by the second."""
    fold = torch.zeros(400, dtype=torch.long)
    fitted = Calibration.fit(
        torch.randn(2, 400, generator=generator),
        fold,
        torch.diag(torch.tensor([1.0, -1.0])),
        SHARES,
    )

    def score(first: float, second: float) -> float:
        return fitted.score(torch.tensor([[[first]], [[second]]])).item()

    assert score(0.0, 0.0) == pytest.approx(score(0.0, 9.0))
    assert score(9.0, 0.0) == pytest.approx(score(9.0, 9.0))
    assert score(0.0, -9.0) == pytest.approx(score(-9.0, -9.0))
    assert score(-9.0, 0.0) < 0.5 < score(0.0, -9.0)
    stuck = torch.tensor([[[0.0]], [[-9.0]]])
    assert fitted.p_value(stuck).item() == pytest.approx(1 / 401)


def test_rows_that_do_not_count_have_p_values_of_new_rows(generator: Generator) -> None:
    """Of 2,000 rows, eight are errors. The p-value of another one is 1/1993 instead of 9/2001."""
    z = torch.randn(2000, generator=generator)
    z[::250] = 100.0
    folds = torch.zeros(2000, dtype=torch.long)
    tests, shares = torch.ones(1, 1), torch.ones(1)
    fitted = Calibration.fit(z[None], folds, tests, shares, kept=z < 100)
    assert fitted.p_value(as_values(torch.tensor([100.0]))).item() == pytest.approx(1 / 1993)
    others = fitted.p_value(as_values(torch.tensor([0.0, 1.28])))
    torch.testing.assert_close(others, torch.tensor([0.5, 0.1]).double(), atol=0.03, rtol=0)
    assert fitted.held_out_p_values()[0].item() == pytest.approx(1 / 1993, rel=1e-3)
