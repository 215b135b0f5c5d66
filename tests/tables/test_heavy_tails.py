"""The map of heavy-tailed columns toward the normal distribution."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from fdsm.tables import heavy_tails
from fdsm.tables.heavy_tails import NormalizeTails


def standardized(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0, correction=0)


@pytest.fixture
def table(generator: Generator) -> Tensor:
    """Normal, log-normal, uniform, and Student's t with three degrees of freedom."""
    z = torch.randn(3000, 4, generator=generator)
    scale = torch.randn(3000, 3, generator=generator).square().mean(1).sqrt()
    columns = [z[:, 0], z[:, 1].exp(), torch.special.ndtr(z[:, 2]), z[:, 3] / scale]
    return standardized(torch.stack(columns, 1))


def tail_weight(x: Tensor) -> list[float]:
    """Range from 1 % to 99 % over that from 25 % to 75 %, relative to the normal distribution."""
    low, lower, upper, high = np.quantile(x.numpy(), [0.01, 0.25, 0.75, 0.99], 0)
    ratio: list[float] = ((high - low) / (upper - lower) * 0.6745 / 2.3263).tolist()
    return ratio


def test_only_heavy_tailed_columns_are_mapped(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table)
    assert fitted.mapped.tolist() == [1, 3]
    y = fitted(table)
    assert torch.equal(y[:, [0, 2]], table[:, [0, 2]])
    assert min(tail_weight(table[:, [1, 3]])) > 1.5
    assert tail_weight(y[:, [1, 3]]) == pytest.approx([1.0, 1.0], abs=0.25)
    assert abs(stats.skew(y[:, 1].numpy())) < stats.skew(table[:, 1].numpy()) / 3


def test_limit_is_1_1_times_the_tails_of_the_normal_distribution(generator: Generator) -> None:
    """A mixture of N(0, 1) and N(0, s²) with weights 1/2."""
    z = torch.randn(20_000, 2, generator=generator)
    wide = torch.rand(20_000, generator=generator) < 0.5
    x = torch.stack([z[:, 0] * torch.where(wide, s, 1.0) for s in (1.3, 2.0)], 1)
    below, above = tail_weight(x)
    assert 1.0 < below < 1.08
    assert above > 1.12
    assert NormalizeTails.fit(x).mapped.tolist() == [1]


@pytest.mark.parametrize("n", [120, 200, 3000])
def test_the_outermost_values_do_not_change_the_map(n: int, table: Tensor) -> None:
    """A map that follows them treats training rows and new rows differently."""
    x = table[:n, [1, 3]]
    far = x.clone()
    for j in range(2):
        outermost = x[:, j].argsort()[[0, 1, 2, -3, -2, -1]]
        far[outermost, j] *= 1000 * x[outermost, j].sign() * far[outermost, j].sign()
        far[outermost[:3], j] -= 100
        far[outermost[3:], j] += 100
    fitted, changed = NormalizeTails.fit(x), NormalizeTails.fit(far)
    assert 1 in fitted.mapped.tolist()
    for name, value in vars(fitted).items():
        torch.testing.assert_close(getattr(changed, name), value, msg=name)


def test_columns_with_quick_training_are_not_mapped(generator: Generator) -> None:
    rare = torch.where(torch.rand(5000, generator=generator) < 0.01, 1.0, 0.0)
    levels = torch.randint(10, (5000,), generator=generator).double() ** 6
    more = torch.randint(11, (5000,), generator=generator).double() ** 6
    x = standardized(torch.stack([rare, levels, more, torch.ones(5000)], 1)).nan_to_num(0.0)
    assert stats.kurtosis(x[:, 1].numpy()) > 1
    assert NormalizeTails.fit(x).mapped.tolist() == [2]


def by_hand(x: Tensor, p: float) -> Tensor:
    """The map of a column at its own values between the quantiles p and 1 - p, else NaN."""
    n, values = len(x), x.numpy()
    limited = values.clip(*np.quantile(values, [p, 1 - p]))
    rank = stats.rankdata(values) / (n + 1)
    blended = 0.85 * stats.norm.ppf(rank) + 0.15 * (values - limited.mean()) / limited.std()
    inner = (rank >= p) & (rank <= 1 - p)
    filled = np.where(inner, blended, blended[inner].min())
    filled = np.where(rank > 1 - p, blended[inner].max(), filled)
    result = (blended - filled.mean()) / max(filled.std(), 1.0)
    return torch.from_numpy(np.where(inner, result, np.nan))


@pytest.mark.parametrize("shape", ["skewed", "far", "repeated"])
def test_map_at_the_knots_is_the_blend_of_normal_scores_and_the_value(shape: str) -> None:
    """With 100 values, the outer knots are at 10 % and 90 %."""
    values = {
        "skewed": torch.linspace(-4, 4, 100).exp(),
        "far": torch.cat([torch.linspace(-1, 1, 78), torch.linspace(-50, 50, 22)]),
        "repeated": torch.cat([torch.zeros(30), torch.linspace(-2, 2, 70) ** 5]),
    }[shape]
    y = NormalizeTails.fit(values[:, None])(values[:, None])[:, 0]
    expected = by_hand(values, 0.1)
    inner = ~expected.isnan()
    assert int(inner.sum()) >= 70
    torch.testing.assert_close(y[inner], expected[inner])


def test_rare_values_of_a_column_of_zeros_keep_their_normal_scores() -> None:
    """97 % zeros: stretched to unit variance, the others would be 5 to 9 away."""
    values = torch.arange(1, 31) / 10
    x = standardized(torch.cat([torch.zeros(970), values])[:, None])
    y = NormalizeTails.fit(x)(x)[:, 0]
    assert 1 < float(y[-30] - y[0]) < 2.5
    assert float(y[-1] - y[0]) < 5


def test_map_is_increasing_and_continues_with_its_last_slopes(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table)
    grid = torch.linspace(-60, 60, 4001)[:, None].expand(-1, 4)
    y = fitted(grid)
    assert (y.diff(dim=0) > 0).all()
    slope = y.diff(dim=0) / grid.diff(dim=0)
    torch.testing.assert_close(slope[0, [1, 3]], fitted.slopes[:, 0])
    torch.testing.assert_close(slope[-1, [1, 3]], fitted.slopes[:, 1])
    for j in range(2):
        near = int((fitted.images[j] < fitted.images[j, -1] - 0.25).sum()) - 1
        rise = fitted.images[j, -1] - fitted.images[j, near]
        run = fitted.knots[j, -1] - fitted.knots[j, near]
        torch.testing.assert_close(fitted.slopes[j, 1], rise / run)


def test_inverse_restores_rows_inside_and_outside_the_data(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table[:500])
    x = torch.cat([table, 10 * table])
    torch.testing.assert_close(fitted.inverse(fitted(x)), x)
    y = torch.linspace(-20, 20, 101)[:, None].expand(-1, 4)
    torch.testing.assert_close(fitted(fitted.inverse(y)), y)


def test_log_det_is_that_of_the_jacobian(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table)
    rows = torch.cat([table[:5], 20 * table[5:8]])
    jacobians = torch.stack([
        torch.autograd.functional.jacobian(lambda x: fitted(x[None])[0], row) for row in rows
    ])
    torch.testing.assert_close(fitted.log_det(rows), torch.linalg.slogdet(jacobians).logabsdet)


def test_missing_cells_stay_missing_and_do_not_count(table: Tensor) -> None:
    gaps = torch.cat([table, torch.full((200, 4), torch.nan)])
    fitted, complete = NormalizeTails.fit(gaps), NormalizeTails.fit(table)
    for name, value in vars(complete).items():
        assert torch.equal(getattr(fitted, name), value), name
    row = table[:1].clone()
    row[0, 1] = torch.nan
    y = fitted(row)
    assert y.isnan().tolist() == [[False, True, False, False]]
    assert fitted.inverse(y).isnan().tolist() == [[False, True, False, False]]
    alone = NormalizeTails.fit(table[:, 3:])
    torch.testing.assert_close(fitted.log_det(row), alone.log_det(table[:1, 3:]))


def test_many_values_are_reduced_to_128_knots(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table)
    assert fitted.knots.shape == fitted.images.shape == (2, heavy_tails.KNOTS)
    ordered = table[:, [1, 3]].sort(0).values
    assert torch.equal(fitted.knots[:, 0], ordered[30])  # 1 % of 3,000 rows are outside
    assert torch.equal(fitted.knots[:, -1], ordered[-31])


def test_rows_keep_their_dtype(table: Tensor) -> None:
    fitted = NormalizeTails.fit(table)
    x = table[:10].float()
    assert fitted(x).dtype == fitted.inverse(x).dtype == torch.float32
    assert fitted.log_det(x).dtype == torch.float32
    torch.testing.assert_close(fitted(x).double(), fitted(table[:10]), rtol=1e-5, atol=1e-5)


def test_table_without_heavy_tails_is_left_alone(generator: Generator) -> None:
    x = torch.randn(1000, 3, generator=generator)
    fitted = NormalizeTails.fit(x)
    assert torch.equal(fitted(x), x)
    assert torch.equal(fitted.inverse(x), x)
    assert torch.equal(fitted.log_det(x), torch.zeros(1000))
