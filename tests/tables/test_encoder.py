"""Codes of a table as inputs of a network, and back."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm.tables.encoder import EncodeColumns, Encoder
from fdsm.tables.heavy_tails import NormalizeTails

LEVELS = (0, 3, 2, 0, 5)


def make_codes(n: int = 200, missing: float = 0.2, seed: int = 0) -> Tensor:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, k, n) if k else random.normal(1e9, 3.0, n) for k in LEVELS]
    codes = np.stack(columns, 1).astype(np.float64)
    codes[random.uniform(size=codes.shape) < missing] = np.nan
    return torch.from_numpy(codes)


def test_blocks_are_the_inputs_of_each_column() -> None:
    fitted = EncodeColumns.fit(make_codes(), LEVELS)
    expected = (slice(0, 1), slice(1, 4), slice(4, 5), slice(5, 6), slice(6, 11))
    assert fitted.blocks == expected
    assert fitted(make_codes(3)).shape == (3, 11)


def test_inputs_are_float32_and_codes_float64() -> None:
    """Whatever the default is, so that a value of the training rows is always recognized."""
    fitted = Encoder.fit(make_codes(), LEVELS)
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        y = fitted(make_codes(3))
        assert (y.dtype, fitted.inverse(y).dtype) == (torch.float32, torch.float64)
        assert fitted.log_det(make_codes(3)).dtype == torch.float64


def test_inputs_have_mean_0_and_numbers_variance_1_over_known_cells() -> None:
    codes = make_codes()
    fitted = EncodeColumns.fit(codes, LEVELS)
    y = fitted(codes).double()
    assert torch.equal(y.nanmean(0).abs() < 1e-6, torch.ones(11).bool())
    for count, block in zip(LEVELS, fitted.blocks, strict=True):
        if not count:
            assert float(y[:, block].square().nanmean()) == pytest.approx(1, abs=1e-5)


def test_categories_are_centered_one_hot_vectors() -> None:
    codes = torch.tensor([[0.0], [0.0], [1.0], [2.0]])
    fitted = EncodeColumns.fit(codes, (3,))
    expected = torch.eye(3)[[0, 0, 1, 2]] - torch.tensor([0.5, 0.25, 0.25])
    assert torch.equal(fitted(codes), expected.float())
    two = EncodeColumns.fit(torch.tensor([[0.0], [0.0], [0.0], [1.0]]), (2,))
    # -1 and 1 with frequencies 3/4 and 1/4 have the mean -1/2
    assert two(torch.tensor([[0.0], [1.0]])).tolist() == [[-0.5], [1.5]]


class LargestTensor(TorchDispatchMode):
    """Remember the number of elements of the largest result of an operation."""

    elements = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        result = function(*args, **(kwargs or {}))
        results = result if isinstance(result, (tuple, list)) else [result]
        sizes = [part.numel() for part in results if isinstance(part, Tensor)]
        self.elements = max(self.elements, *sizes, 0)
        return result


def test_fitting_needs_memory_for_the_codes_but_not_for_the_inputs_of_categories() -> None:
    codes = torch.arange(50.0).repeat(20)[:, None].repeat(1, 30)  # 30 columns of 50 categories
    with LargestTensor() as largest:
        fitted = EncodeColumns.fit(codes, (50,) * 30)
    assert largest.elements <= codes.numel()
    torch.testing.assert_close(fitted.mean, torch.full((1500,), 1 / 50, dtype=torch.float64))


@pytest.mark.parametrize("count", [2, 3])
def test_rare_categories_are_no_farther_away_than_others(count: int) -> None:
    """Two categories differ by 2 in sum, however rare one of them is."""
    codes = torch.zeros(1000, 1)
    codes[:10] = 1.0
    codes[10:300] = count - 1.0
    y = EncodeColumns.fit(codes, (count,))(codes)
    assert float((y[0] - y[999]).abs().sum()) == pytest.approx(2)


def test_inputs_of_extreme_cells_are_a_million_standard_deviations() -> None:
    """1e30 would overflow in the square of a float32."""
    fitted = EncodeColumns.fit(torch.tensor([[-1.0], [1.0]]).double(), (0,))
    found = fitted(torch.tensor([[1e30], [-1e30], [5e5]]).double())
    assert found[:, 0].tolist() == [1e6, -1e6, 5e5]


def test_rare_values_of_a_nearly_constant_column_are_two_per_step_away() -> None:
    """Standardized, one restart in 100 rows would be ten standard deviations away."""
    restarts = torch.zeros(100, 1)
    restarts[0], restarts[1] = 1.0, 2.0
    y = EncodeColumns.fit(restarts, (0,))(restarts)[:, 0]
    assert (y[:3] - y[99]).tolist() == pytest.approx([2, 4, 0])


@settings(max_examples=50, deadline=None)
@given(
    levels=st.lists(st.sampled_from([0, 2, 3, 7]), min_size=1, max_size=5).map(tuple),
    seed=st.integers(0, 2**16),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_inverse_restores_codes_and_missing_cells(
    levels: tuple[int, ...], seed: int, missing: float
) -> None:
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, k or 100, 30) for k in levels], 1).astype(float)
    codes[random.uniform(size=codes.shape) < missing] = np.nan
    x = torch.from_numpy(codes)
    fitted = EncodeColumns.fit(x, levels)
    y = fitted(x)
    for i, block in enumerate(fitted.blocks):
        assert torch.equal(y[:, block].isnan().all(1), x[:, i].isnan())
        assert torch.equal(y[:, block].isnan().any(1), x[:, i].isnan())
    restored = fitted.inverse(y)
    assert restored.dtype == torch.float64
    torch.testing.assert_close(restored, x, rtol=0, atol=1e-4, equal_nan=True)


def test_samples_are_mapped_to_the_nearest_category() -> None:
    codes = make_codes(missing=0)
    fitted = EncodeColumns.fit(codes, LEVELS)
    noisy = fitted(codes) + 0.1 * torch.randn(200, 11)
    restored = fitted.inverse(noisy)
    assert torch.equal(restored[:, [1, 2, 4]], codes[:, [1, 2, 4]])


def test_log_det_is_that_of_the_numeric_columns() -> None:
    codes = make_codes(missing=0)
    fitted = EncodeColumns.fit(codes, LEVELS)
    row = codes[0]

    def numeric(values: Tensor) -> Tensor:
        full = torch.stack([values[0], row[1], row[2], values[1], row[4]])
        return fitted(full[None])[0, [0, 5]]

    jacobian = torch.func.jacrev(numeric)(row[[0, 3]])
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(fitted.log_det(codes), expected.expand(200))


def test_log_det_leaves_out_missing_cells() -> None:
    codes = make_codes(missing=0)
    fitted = EncodeColumns.fit(codes, LEVELS)
    gaps = codes[:3].clone()
    gaps[0, 0] = gaps[1, 0] = gaps[1, 3] = gaps[2, 1] = torch.nan
    scale = torch.from_numpy(codes.numpy().std(0))
    expected = torch.stack([-scale[3].log(), torch.tensor(0.0), -(scale[0] * scale[3]).log()])
    torch.testing.assert_close(fitted.log_det(gaps), expected)


def test_large_numbers_that_vary_little_keep_their_precision() -> None:
    codes = 1.7e9 + torch.arange(10, dtype=torch.float64)[:, None]
    y = EncodeColumns.fit(codes, (0,))(codes)
    expected = (torch.arange(10) - 4.5) / math.sqrt(8.25)
    torch.testing.assert_close(y[:, 0], expected.float())


def test_columns_without_spread_have_scale_1() -> None:
    codes = torch.tensor([[5.0, 1.0, torch.nan, 1.0], [5.0, 1.0, torch.nan, 1.0]])
    fitted = EncodeColumns.fit(codes, (0, 3, 0, 2))
    new = torch.tensor([[7.0, 2.0, 4.0, 0.0]])
    y = fitted(new)
    assert y.tolist() == [[2.0, 0.0, -1.0, 1.0, 4.0, -2.0]]
    assert torch.equal(fitted.inverse(y), new.double())
    assert fitted.log_det(new).item() == 0


def test_columns_need_two_categories() -> None:
    with pytest.raises(ValueError, match=r"0 for numbers or at least 2, but are \(0, 1\)"):
        EncodeColumns.fit(torch.zeros(3, 2), (0, 1))


@pytest.fixture
def skewed(generator: Generator) -> Tensor:
    """A log-normal column, a category and a normal column, with missing cells."""
    z = torch.randn(500, 2, generator=generator)
    codes = torch.stack([z[:, 0].exp(), torch.arange(500) % 3, z[:, 1]], 1)
    codes[::7, 0] = codes[::5, 1] = torch.nan
    return codes


def test_encoder_maps_heavy_tails_after_it_scales_columns(skewed: Tensor) -> None:
    encoder = Encoder.fit(skewed, (0, 3, 0))
    columns = EncodeColumns.fit(skewed, (0, 3, 0))
    tails = NormalizeTails.fit(columns(skewed))
    assert 0 in tails.mapped.tolist()
    torch.testing.assert_close(encoder(skewed), tails(columns(skewed)), equal_nan=True)
    torch.testing.assert_close(encoder.inverse(encoder(skewed)), skewed, equal_nan=True)
    assert (encoder.blocks, encoder.dimension) == (columns.blocks, 5)


def test_log_det_of_the_encoder_is_that_of_its_numeric_columns(skewed: Tensor) -> None:
    encoder = Encoder.fit(skewed, (0, 3, 0))
    row = torch.tensor([1.7, 2.0, 0.3])
    numeric = lambda x: encoder(torch.stack([x[0], row[1], x[1]])[None])[0, [0, 4]]
    jacobian = torch.func.jacrev(numeric)(row[[0, 2]])
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(encoder.log_det(row[None]), expected[None])
    row[0] = torch.nan
    torch.testing.assert_close(encoder.log_det(row[None]), jacobian[1, 1].abs().log()[None])
