"""The detector with log-densities that are known."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.outliers import Calibration, KnownValues, Neighbors, OutlierDetector

MEANS = torch.tensor([0.0, 0.1, -0.1])
"""Each of three models has another mean."""


def log_densities(x: Tensor) -> Tensor:
    """Two noise levels and three models, shape `(3, N, D) -> (2, 3, N)`."""
    square = (x - MEANS[:, None, None]).square().sum(-1)
    return torch.stack([-square / 2, -square / (2 * 1.16)])


def normal_rows(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 4, generator=generator), torch.arange(n) % 3


def rounded_rows(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Rows whose last column has whole numbers."""
    rows, folds = normal_rows(n, generator)
    return torch.cat([rows[:, :3], rows[:, 3:].round()], 1), folds


def test_measures_are_minus_the_log_densities_of_the_rows_fold(generator: Generator) -> None:
    """Two levels share the weight 0.5, distances have the weight 1 and new values 0.2."""
    rows, folds = rounded_rows(300, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    by_hand = torch.stack([
        torch.stack([-log_densities(row[None])[level, folds[i], 0] for i, row in enumerate(rows)])
        for level in range(2)
    ])
    everywhere = torch.ones(300, dtype=torch.bool)
    distances = Neighbors(rows, folds).mean_log_distance(rows[None], torch.full((300,), -1))
    by_hand = torch.cat([
        by_hand,
        distances[folds, torch.arange(300)][None],
        KnownValues.fit(rows).surprise(rows, everywhere).sum(1)[None],
    ])
    weights = torch.tensor([[0.25, 0.25, 1.0, 0.2], [0.5, 0.5, 0.0, 0.0]])
    expected = Calibration.fit(by_hand, folds, weights, torch.tensor([0.0, 0.0, 0.0, 1.0]))
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(detector.calibration, name), value)
    assert detector.neighbors is not None
    assert torch.equal(detector.neighbors.rows, rows)


def test_without_training_rows_only_log_densities_count(generator: Generator) -> None:
    rows, folds = normal_rows(300, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds)
    assert detector.neighbors is None
    assert detector.calibration.weights.tolist() == [[0.25, 0.25], [0.5, 0.5]]
    x = torch.zeros(1, 4).index_fill(1, torch.tensor([0]), 1.5)
    swapped = x[:, [1, 0, 2, 3]]
    torch.testing.assert_close(
        detector.score_rows(log_densities, x).score,
        detector.score_rows(log_densities, swapped).score,
    )


def test_p_values_of_new_rows_are_uniform_and_outliers_are_found(generator: Generator) -> None:
    rows, folds = normal_rows(1500, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    new, _ = normal_rows(2000, generator)
    p = detector.score_rows(log_densities, new).p_value
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).double().mean().item() == pytest.approx(level, abs=0.04)
    far = detector.score_rows(log_densities, 7 * torch.eye(4))
    assert far.p_value.tolist() == pytest.approx([1 / 1501] * 4)
    assert (far.score > 3).all()


def test_distances_find_a_gap_in_the_data_that_the_log_density_does_not_see(
    generator: Generator,
) -> None:
    """Rows on a circle, and a log-density that is constant within radius 3."""
    angle = 2 * math.pi * torch.rand(600, generator=generator)
    rows = torch.stack([angle.cos(), angle.sin()], 1)
    rows += 0.1 * torch.randn(600, 2, generator=generator)
    flat = lambda x: -10 * (x.norm(dim=-1) - 3).clamp_min(0)[None]
    detector = OutlierDetector.fit(flat, rows, torch.arange(600) % 4, training_rows=rows)
    p = detector.score_rows(flat, torch.tensor([[0.0, 0.0], [1.0, 0.0]])).p_value
    assert p[0].item() == pytest.approx(1 / 601)
    assert p[1].item() > 0.1


def test_new_values_are_found_between_known_ones(generator: Generator) -> None:
    """The last column has whole numbers, so 0.5 is new although it is ordinary otherwise."""
    rows, folds = rounded_rows(1500, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    x = torch.tensor([[0.5, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.5]])
    known, new = detector.score_rows(log_densities, x).p_value.tolist()
    assert known > 0.3
    assert new < 0.05


def test_p_values_with_new_values_are_uniform(generator: Generator) -> None:
    """New rows have new values about as often as held-out rows have values that occur once."""
    rows, folds = normal_rows(1500, generator)
    new, _ = normal_rows(2000, generator)
    rows, new = ((20 * x).round() / 20 for x in (rows, new))
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    assert detector.known_values is not None
    share = (detector.known_values.surprise(new) > 0).double().mean().item()
    held_out = detector.known_values.surprise(rows, torch.ones(1500, dtype=torch.bool))
    assert share == pytest.approx((held_out > 0).double().mean().item(), abs=0.004)
    assert share > 0.006
    p = detector.score_rows(log_densities, new).p_value
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).double().mean().item() == pytest.approx(level, abs=0.04)


def test_small_surprises_of_many_rows_are_not_stretched(generator: Generator) -> None:
    """About a quarter of the values are new. Their surprise is less than a nat, and stays so."""
    rows, folds = normal_rows(600, generator)
    rows[:, 3] = (100 * rows[:, 3]).round() / 100
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    assert detector.known_values is not None
    assert detector.known_values.columns.tolist() == [3]
    found = detector.known_values.surprise(rows, torch.ones(600, dtype=torch.bool)).sum(1)
    assert 0 < float(found.quantile(0.9) - found.quantile(0.1)) < 1
    assert float(detector.calibration.scale[-1]) == pytest.approx(1.0)


def test_measures_of_rows_with_gaps_are_averaged_over_their_completions(
    generator: Generator,
) -> None:
    """Measures are averaged before they are calibrated, not scores. A gap is no new value."""
    rows, folds = rounded_rows(300, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    x = torch.randn(7, 4, generator=generator)
    x[:3, 3], x[3, 0] = torch.nan, torch.nan
    assert detector.neighbors is not None
    assert detector.known_values is not None
    filled = detector.neighbors.completions(x)
    assert filled.shape == (5, 3, 7, 4)
    surprise = detector.known_values.surprise(x).sum(1)
    assert (surprise > 0).tolist() == [False] * 3 + [True] * 4
    measures = [
        torch.cat([
            -log_densities(part),
            detector.neighbors.mean_log_distance(part, torch.full((7,), -1))[None],
            surprise.expand(1, 3, -1),
        ])
        for part in filled
    ]
    mean = torch.stack(measures).mean(0)
    torch.testing.assert_close(detector.measures(log_densities, x), mean)
    scores = detector.score_rows(log_densities, x)
    torch.testing.assert_close(scores.score, detector.calibration.score(mean))
    torch.testing.assert_close(scores.p_value, detector.calibration.p_value(mean))


def test_no_rows_have_no_scores(generator: Generator) -> None:
    rows, folds = normal_rows(300, generator)
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    assert detector.score_rows(log_densities, rows[:0]).score.shape == (0,)


def test_p_values_of_rows_with_gaps_are_uniform(generator: Generator) -> None:
    """Without cross-fitting of the filled cells, 23 to 29 % were below 0.2."""

    def rows_with_gaps(n: int) -> Tensor:
        rows = torch.randn(n, 12, generator=generator)
        rows = 0.9 * rows[:, :1] + 0.44 * rows
        return rows.masked_fill(torch.rand(n, 12, generator=generator) < 0.2, torch.nan)

    normal = lambda x: -x.square().sum(-1)[None]
    p_values = []
    for _ in range(8):
        rows = rows_with_gaps(300)
        detector = OutlierDetector.fit(normal, rows, torch.arange(300) % 4, training_rows=rows)
        p_values.append(detector.score_rows(normal, rows_with_gaps(500)).p_value)
    p = torch.cat(p_values)
    assert 0.03 < (p <= 0.05).double().mean() < 0.06
    assert 0.16 < (p <= 0.2).double().mean() < 0.215


def test_copies_of_different_training_rows_are_these_rows(generator: Generator) -> None:
    """Their scores do not use the distance to themselves. By their own fold they are held out."""
    rows, folds = rounded_rows(400, generator)
    rows[::5, 1] = torch.nan
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    by_fold = detector.calibration.fold_scores(detector.measures(log_densities, rows))
    own = by_fold[folds, torch.arange(400)]
    torch.testing.assert_close(own, detector.calibration.held_out_scores())
    close = rows + torch.tensor([1e-4, 0, 0, 0])  # new rows, with a training row next to them
    scores_of_new = detector.calibration.fold_scores(detector.measures(log_densities, close))
    others = torch.arange(3)[:, None] != folds
    assert (by_fold > scores_of_new)[others].double().mean() > 0.95


def test_copies_are_normal_if_training_rows_repeat(generator: Generator) -> None:
    """New rows that are copies are expected, so they count as their own neighbors."""
    rows, folds = normal_rows(400, generator)
    rows = torch.cat([rows[:200], rows[:200]])
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=rows)
    once = detector.score_rows(log_densities, rows, leave_one_out=True)
    found = detector.score_rows(log_densities, rows)
    assert (found.score < once.score).double().mean() > 0.9
    assert found.p_value.min() > 1 / 401  # not suspiciously dense either


@pytest.mark.parametrize("is_table", [False, True])
def test_restored_detector_is_identical(is_table: bool, generator: Generator) -> None:
    rows, folds = rounded_rows(100, generator)
    training = rows if is_table else None
    detector = OutlierDetector.fit(log_densities, rows, folds, training_rows=training)
    again = OutlierDetector.restore(detector.state())
    x = torch.randn(20, 4, generator=generator)
    for a, b in zip(
        detector.score_rows(log_densities, x), again.score_rows(log_densities, x), strict=True
    ):
        assert torch.equal(a, b)
    assert (again.neighbors is None) == (not is_table)
