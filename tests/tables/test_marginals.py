"""Columns of samples get the distributions of the training columns."""

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from fdsm.tables.marginals import Marginals

BOTH = torch.tensor([True, True])


def exponential(n: int, generator: Generator) -> Tensor:
    return -torch.rand(n, generator=generator).double().log()


def test_columns_have_the_distribution_of_the_training_rows(generator: Generator) -> None:
    """Normal samples of a model become exponential, as the training rows are."""
    rows = torch.stack([exponential(5000, generator), 3 + exponential(5000, generator)], 1)
    draw = lambda n: 5 + 2 * torch.randn(n, 2, generator=generator).double()
    fitted = Marginals.fit(draw(5000), rows, BOTH)
    mapped = fitted.apply(draw(3000))
    assert stats.kstest(mapped[:, 0].numpy(), "expon").pvalue > 0.001
    assert stats.kstest(mapped[:, 1].numpy() - 3, "expon").pvalue > 0.001


def test_few_samples_reach_all_training_values(generator: Generator) -> None:
    """250 samples are interpolated. Repeated quantiles would skip half of the training values."""
    rows = torch.arange(1000).double()[:, None]
    samples = torch.linspace(0, 1, 250).double()[:, None]
    fitted = Marginals.fit(samples, rows, torch.tensor([True]))
    x = torch.linspace(0, 1, 5000).double()[:, None]
    torch.testing.assert_close(fitted.apply(x), 999 * x, rtol=0, atol=1.0)


def test_map_is_that_of_the_quantiles(generator: Generator) -> None:
    """F⁻¹(G(x)) of a uniform and an exponential distribution is -log(1 - x)."""
    uniform = torch.linspace(0, 1, 100_001).double()[1:-1, None]
    fitted = Marginals.fit(uniform, -torch.log1p(-uniform), torch.tensor([True]))
    x = torch.tensor([[0.1], [0.5], [0.9]]).double()
    torch.testing.assert_close(fitted.apply(x), -torch.log1p(-x), rtol=0.01, atol=0.005)


def test_map_is_monotone_so_relations_between_columns_stay(generator: Generator) -> None:
    samples = torch.randn(2000, 2, generator=generator).double()
    samples[:, 1] = samples[:, 0] + 0.5 * samples[:, 1]
    rows = torch.stack([exponential(2000, generator), exponential(2000, generator)], 1)
    mapped = Marginals.fit(samples, rows, BOTH).apply(samples)
    for j in range(2):
        order = samples[:, j].argsort()
        assert (mapped[order, j].diff() >= 0).all()
    before, after = (stats.spearmanr(*x.T.numpy()).statistic for x in (samples, mapped))
    assert after == pytest.approx(before, abs=0.01)


def test_values_that_occur_often_occur_as_often_in_samples(generator: Generator) -> None:
    """60 % of the training values are zero, the others are large: samples have no other values."""
    rows = torch.zeros(1000, 1).double()
    rows[600:, 0] = torch.arange(400) % 4 + 10.0
    samples = torch.randn(4000, 1, generator=generator).double()
    mapped = Marginals.fit(samples, rows, torch.tensor([True])).apply(samples)
    values, counts = mapped.unique(return_counts=True)
    assert values.tolist() == [0.0, 10.0, 11.0, 12.0, 13.0]
    assert (counts / 4000).tolist() == pytest.approx([0.6] + [0.1] * 4, abs=0.02)


def test_different_values_are_interpolated_within_the_range_of_the_data() -> None:
    rows = torch.arange(50).double()[:, None] ** 2
    samples = torch.linspace(0, 1, 2000).double()[:, None]
    fitted = Marginals.fit(samples, rows, torch.tensor([True]))
    mapped = fitted.apply(torch.tensor([[-3.0], [0.123], [7.0]]).double())[:, 0].tolist()
    assert mapped[0] == 0
    assert mapped[2] == 49**2
    assert (mapped[1] ** 0.5) == pytest.approx(0.123 * 49, abs=1.0)


def test_other_columns_and_the_input_stay_as_they_are(generator: Generator) -> None:
    samples = torch.randn(500, 2, generator=generator).double()
    before = samples.clone()
    rows = torch.stack([exponential(100, generator), torch.zeros(100).double()], 1)
    mapped = Marginals.fit(samples, rows, torch.tensor([True, False])).apply(samples)
    assert torch.equal(mapped[:, 1], samples[:, 1])
    assert not torch.equal(mapped[:, 0], samples[:, 0])
    assert torch.equal(samples, before)


def test_missing_cells_of_the_training_rows_do_not_count(generator: Generator) -> None:
    samples = torch.randn(500, 2, generator=generator).double()
    rows = torch.stack([exponential(100, generator), exponential(100, generator)], 1)
    gaps = torch.cat([rows, torch.full((900, 2), torch.nan).double()])
    a, b = (Marginals.fit(samples, x, BOTH).apply(samples) for x in (rows, gaps))
    assert torch.equal(a, b)


def test_samples_that_are_all_equal_stay_finite() -> None:
    rows = torch.arange(20).double()[:, None]
    samples = torch.ones(100, 1).double()
    mapped = Marginals.fit(samples, rows, torch.tensor([True])).apply(samples)
    assert ((mapped >= 0) & (mapped <= 19)).all()


def test_nearest_known_value_is_a_value_of_the_training_rows(generator: Generator) -> None:
    rows = torch.tensor([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0], [9.0, 5.0]]).double()
    samples = torch.randn(100, 2, generator=generator).double()
    fitted = Marginals.fit(samples, rows, torch.tensor([True, False]))
    codes = torch.tensor([[-7.0, 0.3], [0.4, 0.3], [2.6, 0.3], [6.4, 0.3], [99.0, 0.3]]).double()
    found = fitted.nearest_known(codes)
    assert found[:, 0].tolist() == [0.0, 0.0, 4.0, 4.0, 9.0]
    assert torch.equal(found[:, 1], codes[:, 1])
