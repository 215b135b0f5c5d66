"""Means of weights given by their logarithms."""

import math

import pytest
import torch
from torch import Generator

from fdsm.samplers import log_mean_exp


def test_log_mean_exp_is_the_logarithm_of_the_mean(generator: Generator) -> None:
    w = torch.rand(50, 3, generator=generator)
    found = log_mean_exp(w.log())
    torch.testing.assert_close(found.value, w.mean(0).log())
    torch.testing.assert_close(found.error, w.std(0) / math.sqrt(50) / w.mean(0))
    torch.testing.assert_close(found.effective_sample_size, w.sum(0).square() / w.square().sum(0))


@pytest.mark.parametrize("offset", [-1e5, 1e5])
def test_large_and_small_weights_do_not_overflow(offset: float) -> None:
    found = log_mean_exp(torch.tensor([1.0, 2.0, 6.0]).log() + offset)
    assert found.value.item() - offset == pytest.approx(math.log(3), abs=1e-9)
    assert found.effective_sample_size.item() == pytest.approx(81 / 41)


def test_equal_weights_have_full_effective_sample_size() -> None:
    found = log_mean_exp(torch.full((7,), 2.5, dtype=torch.float32))
    assert found.value.dtype == torch.float64
    assert found.value.item() == pytest.approx(2.5)
    assert found.error.item() == pytest.approx(0, abs=1e-7)
    assert found.effective_sample_size.item() == pytest.approx(7)


def test_zero_weights_count_as_samples() -> None:
    found = log_mean_exp(torch.tensor([0.0, -torch.inf]))
    assert found.value.item() == pytest.approx(-math.log(2))
    assert found.effective_sample_size.item() == pytest.approx(1)
    zero = log_mean_exp(torch.full((3,), -torch.inf))
    assert zero.value == -torch.inf
    assert zero.error == torch.inf
    assert zero.effective_sample_size == 0


def test_a_single_weight_has_no_error() -> None:
    found = log_mean_exp(torch.tensor([1.5]))
    assert found.value.item() == pytest.approx(1.5)
    assert found.error.isnan()


def test_infinite_and_missing_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="2 of 3 weights are infinite or NaN"):
        log_mean_exp(torch.tensor([0.0, torch.inf, torch.nan]))
    with pytest.raises(ValueError, match="at least one weight"):
        log_mean_exp(torch.empty(0, 3))
