"""The detector with log-densities that are known."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.conditionals import Conditionals
from fdsm.tables.outliers import Calibration, KnownValues, Neighbors, OutlierDetector
from fdsm.tables.outliers.detector import LogDensities
from fdsm.tables.outliers.tail import UpperTails

from ..table_cases import fit_detector, plain_view

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


def p_values(
    detector: OutlierDetector, x: Tensor, log_densities: LogDensities = log_densities
) -> Tensor:
    return detector.calibration.p_value(detector.measures(log_densities, x))


def test_measures_are_minus_the_log_densities_of_the_rows_fold(generator: Generator) -> None:
    """Two levels share the weight 0.5, distances have 1, new values 0.4 and the largest cell 0.5.

    The other tests are of the largest cell alone, of high density, and of contradictions.
    """
    rows, folds = rounded_rows(300, generator)
    detector = fit_detector(log_densities, rows, folds)
    by_hand = torch.stack([
        torch.stack([-log_densities(row[None])[level, folds[i], 0] for i, row in enumerate(rows)])
        for level in range(2)
    ])
    everywhere, own = torch.ones(300, dtype=torch.bool), (folds, torch.arange(300))
    distances = Neighbors(rows, folds).mean_log_distance(rows[None], torch.full((1, 300), -1))
    cells = detector.conditionals.surprise(rows[None])[own]
    log_p = torch.empty_like(cells)
    for k in range(3):  # by the rows of the other folds
        log_p[folds == k] = UpperTails.fit(list(cells[folds != k].T)).log10(cells[folds == k])
    by_hand = torch.cat([
        by_hand,
        distances[own][None],
        KnownValues.fit(rows).surprise(rows, everywhere).sum(1)[None],
        -log_p.amin(1)[None],
        torch.zeros(1, 300),
    ])
    weights = torch.tensor([
        [0.25, 0.25, 1.0, 0.4, 0.5, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [-0.5, -0.5, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ])
    of_cells = 0.2 * 300 / 1300
    shares = torch.tensor([1 - of_cells - 0.12, of_cells, 0.02, 0.1]).double()
    smallest = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    expected = Calibration.fit(by_hand, folds, weights, shares, smallest)
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(detector.calibration, name), value)
    assert torch.equal(detector.neighbors.rows, rows)


def test_p_values_of_new_rows_are_uniform_and_outliers_are_found(generator: Generator) -> None:
    rows, folds = normal_rows(1500, generator)
    detector = fit_detector(log_densities, rows, folds)
    new, _ = normal_rows(2000, generator)
    p = p_values(detector, new)
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).double().mean().item() == pytest.approx(level, abs=0.04)
    far = detector.measures(log_densities, 7 * torch.eye(4))
    assert detector.calibration.p_value(far).tolist() == pytest.approx([1 / 1501] * 4)
    assert (detector.calibration.score(far) > 3).all()


def test_distances_find_a_gap_in_the_data_that_the_log_density_does_not_see(
    generator: Generator,
) -> None:
    """Rows on a circle, and a log-density that is constant within radius 3."""
    angle = 2 * math.pi * torch.rand(600, generator=generator)
    rows = torch.stack([angle.cos(), angle.sin()], 1)
    rows += 0.1 * torch.randn(600, 2, generator=generator)
    flat = lambda x: -10 * (x.norm(dim=-1) - 3).clamp_min(0)[None]
    detector = fit_detector(flat, rows, torch.arange(600) % 4)
    p = p_values(detector, torch.tensor([[0.0, 0.0], [1.0, 0.0]]), flat)
    assert p[0].item() == pytest.approx(1 / 601)
    assert p[1].item() > 0.1


def test_new_values_are_found_between_known_ones(generator: Generator) -> None:
    """The last column has whole numbers, so 0.5 is new although it is ordinary otherwise."""
    rows, folds = rounded_rows(1500, generator)
    detector = fit_detector(log_densities, rows, folds)
    x = torch.tensor([[0.5, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.5]])
    known, new = p_values(detector, x).tolist()
    assert known > 0.3
    assert new < 0.05


def test_p_values_with_new_values_are_uniform(generator: Generator) -> None:
    """New rows have new values about as often as held-out rows have values that occur once."""
    rows, folds = normal_rows(1500, generator)
    new, _ = normal_rows(2000, generator)
    rows, new = ((20 * x).round() / 20 for x in (rows, new))
    detector = fit_detector(log_densities, rows, folds)
    share = (detector.known_values.surprise(new) > 0).double().mean().item()
    held_out = detector.known_values.surprise(rows, torch.ones(1500, dtype=torch.bool))
    assert share == pytest.approx((held_out > 0).double().mean().item(), abs=0.004)
    assert share > 0.006
    p = p_values(detector, new)
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).double().mean().item() == pytest.approx(level, abs=0.04)


def test_small_surprises_of_many_rows_are_not_stretched(generator: Generator) -> None:
    """About a quarter of the values are new. Their surprise is less than a nat, and stays so."""
    rows, folds = normal_rows(600, generator)
    rows[:, 3] = (100 * rows[:, 3]).round() / 100
    detector = fit_detector(log_densities, rows, folds)
    assert detector.known_values.columns.tolist() == [3]
    found = detector.known_values.surprise(rows, torch.ones(600, dtype=torch.bool)).sum(1)
    assert 0 < float(found.quantile(0.9) - found.quantile(0.1)) < 1
    assert float(detector.calibration.scale[-3]) == pytest.approx(1.0)


def test_measures_of_rows_with_gaps_are_averaged_over_their_completions(
    generator: Generator,
) -> None:
    """Measures are averaged before they are calibrated, not scores. A gap is no new value."""
    rows, folds = rounded_rows(300, generator)
    detector = fit_detector(log_densities, rows, folds)
    x = torch.randn(7, 4, generator=generator)
    x[:3, 3], x[3, 0] = torch.nan, torch.nan
    filled = detector.neighbors.completions(x[None])
    assert filled.shape == (5, 3, 7, 4)
    surprise = detector.known_values.surprise(x).sum(1)
    assert (surprise > 0).tolist() == [False] * 3 + [True] * 4
    measures = [
        torch.cat([
            -log_densities(part),
            detector.neighbors.mean_log_distance(part, torch.full((1, 7), -1))[None],
            surprise.expand(1, 3, -1),
        ])
        for part in filled
    ]
    mean = torch.stack(measures).mean(0)
    found = detector.measures(log_densities, x)
    torch.testing.assert_close(found[:-2], mean)
    cells = torch.stack([detector.conditionals.surprise(part) for part in filled]).mean(0)
    tails = [detector.cell_tails[4 * k : 4 * k + 4] for k in range(3)]
    log_p = torch.stack([tails[k].log10(cells[k]) for k in range(3)])
    torch.testing.assert_close(found[-2], -log_p.masked_fill(x.isnan(), 0.0).amin(-1))


def test_no_rows_have_no_measures(generator: Generator) -> None:
    rows, folds = normal_rows(300, generator)
    detector = fit_detector(log_densities, rows, folds)
    assert detector.measures(log_densities, rows[:0]).shape == (6, 3, 0)


def test_p_values_of_rows_with_gaps_are_uniform(generator: Generator) -> None:
    """Without cross-fitting of the filled cells, 23 to 29 % were below 0.2."""

    def rows_with_gaps(n: int) -> Tensor:
        rows = torch.randn(n, 6, generator=generator)
        rows = 0.9 * rows[:, :1] + 0.44 * rows
        return rows.masked_fill(torch.rand(n, 6, generator=generator) < 0.2, torch.nan)

    normal = lambda x: -x.square().sum(-1)[None]
    found = []
    for _ in range(4):
        rows = rows_with_gaps(300)
        detector = fit_detector(normal, rows, torch.arange(300) % 4)
        found.append(p_values(detector, rows_with_gaps(600), normal))
    p = torch.cat(found)
    assert 0.03 < (p <= 0.05).double().mean() < 0.06
    assert 0.16 < (p <= 0.2).double().mean() < 0.215


def test_copies_of_different_training_rows_are_these_rows(generator: Generator) -> None:
    """Their scores do not use the distance to themselves. By their own fold they are held out."""
    rows, folds = rounded_rows(400, generator)
    rows[::5, 1] = torch.nan
    detector = fit_detector(log_densities, rows, folds)
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
    detector = fit_detector(log_densities, rows, folds)
    once = detector.measures(log_densities, rows, leave_one_out=True)
    copies, score = detector.measures(log_densities, rows), detector.calibration.score
    assert (score(copies) < score(once)).double().mean() > 0.9
    assert p_values(detector, rows).min() > 1 / 401  # not suspiciously dense either


def test_restored_detector_is_identical(generator: Generator) -> None:
    rows, folds = rounded_rows(100, generator)
    detector = fit_detector(log_densities, rows, folds)
    again = OutlierDetector.restore(detector.state(), plain_view(4))
    x = torch.randn(20, 4, generator=generator)
    assert torch.equal(p_values(detector, x), p_values(again, x))
    measures = detector.measures(log_densities, x)
    assert torch.equal(again.measures(log_densities, x), measures)
    assert torch.equal(again.calibration.score(measures), detector.calibration.score(measures))


def test_each_log_density_is_computed_once(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete rows in one way, rows with missing cells in five."""
    monkeypatch.setattr("fdsm.tables.outliers.detector.CHUNK", 8)
    rows, folds = normal_rows(60, generator)
    detector = fit_detector(log_densities, rows, folds)
    x = torch.randn(20, 4, generator=generator)
    x[3:6, 1] = torch.nan
    evaluated: list[Tensor] = []

    def counted(y: Tensor) -> Tensor:
        evaluated.append(y[0])
        return log_densities(y)

    detector.measures(counted, x)
    assert len(torch.cat(evaluated)) == 17 + 3 * 5
    assert len(torch.cat(evaluated).unique(dim=0)) >= 17 + 3


def test_rows_that_are_no_references_are_calibrated_like_new_rows(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    """Of 120 held-out rows, 50 are references. Each row is compared by the model of its fold."""
    monkeypatch.setattr("fdsm.tables.outliers.detector.REFERENCE_ROWS", 50)
    rows = torch.randn(120, 3, generator=generator)
    rows[3:120:7, 1] = torch.nan
    folds = torch.arange(120) % 3
    scale = torch.tensor([1.0, 2.0, 3.0])[:, None]
    log_densities = lambda x: (-scale * x.square().sum(-1))[None]
    detector = fit_detector(log_densities, rows, folds)
    calibration = detector.calibration
    assert len(detector.neighbors.rows) == 50
    assert len(calibration.folds) == 120
    measures = detector.measures(log_densities, rows, leave_one_out=True)
    own = measures[:, folds, torch.arange(120)]
    u = (own - calibration.center[:, None]) / calibration.scale[:, None]
    z = calibration.weights @ u.to(calibration.weights)
    torch.testing.assert_close(calibration.held_out, z, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.2])
def test_contradictions_are_as_unusual_as_they_are_rare(rate: float, generator: Generator) -> None:
    """Of 1,000 held-out rows, some break a relation, and a row that does is otherwise usual.

    With none of them, its p-value is 1/1001. With 2 % it is at most about 0.02 / 0.1 by the test
    of contradictions, and with 20 % it is that of other rows.
    """
    rows, folds = normal_rows(1000, generator)
    broken = 2.0 * (torch.rand(1000, generator=generator) < rate)
    conditionals = Conditionals.fit(plain_view(4), rows, folds)
    detector = OutlierDetector.fit(log_densities, conditionals, rows, folds, rows, broken)
    new, _ = normal_rows(400, generator)
    p = detector.calibration.p_value(
        detector.measures(log_densities, new, torch.full((400,), 2.0))
    )
    low, high = {0.0: (0.0, 0.001), 0.02: (0.1, 0.25), 0.2: (0.3, 0.6)}[rate]
    assert low < p.median() < high
    is_broken = torch.rand(400, generator=generator) < rate
    usual = detector.calibration.p_value(detector.measures(log_densities, new, 2.0 * is_broken))
    for level in (0.05, 0.2, 0.5):
        assert (usual <= level).double().mean().item() == pytest.approx(level, abs=0.06)
