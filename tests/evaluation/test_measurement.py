"""A mean, its standard error, and how they are printed."""

import dataclasses
import math

import pytest
import torch
from torch import Generator

from fdsm.evaluation import Measurement, mean_of
from fdsm.evaluation.measurement import median_of
from fdsm.serialize import to_json


def test_mean_and_standard_error_by_hand() -> None:
    measured = mean_of(torch.tensor([1.0, 2.0, 6.0]), noise=0.1)
    assert measured.value == 3
    assert measured.error == pytest.approx(math.sqrt(7 / 3))  # variance (4 + 1 + 9) / 2 over 3
    assert measured.settings == {"noise": 0.1, "rows": 3}


def test_standard_error_is_the_spread_of_means(generator: Generator) -> None:
    draws = torch.randn(2000, 50, generator=generator).exp()
    errors = torch.tensor([mean_of(row).error for row in draws])
    spread = draws.mean(1).std().item()
    assert errors.square().mean().sqrt().item() == pytest.approx(spread, rel=0.1)


def test_mean_of_float32_is_computed_in_float64() -> None:
    values = torch.full((10_000,), 0.1).float()
    values[0] = 1e7
    exact = (1e7 + 9999 * float(torch.tensor(0.1).float())) / 10_000
    assert mean_of(values).value == pytest.approx(exact, rel=1e-14)


def test_a_single_value_has_no_error_and_no_values_are_refused() -> None:
    assert mean_of(torch.ones(1)).error is None
    for values in (torch.ones(0), torch.ones(3, 1), torch.tensor(1.0)):
        with pytest.raises(ValueError, match="one value per example"):
            mean_of(values)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-105.21, 1.3, "-105.2 ± 1.3"),
        (-105.21, 13.4, "-105 ± 13"),
        (0.98765, 0.0012, "0.9877 ± 0.0012"),
        (-3.3333e7, 1.2e5, "(-3.333 ± 0.012)e7"),
        (3.21e-7, 4e-9, "(3.210 ± 0.040)e-7"),
        (0.0, 0.5, "0.00 ± 0.50"),
        (-2.5, 0.0, "-2.5"),
        (-2.5, None, "-2.5"),
        (math.nan, math.nan, "nan"),
        (math.inf, None, "inf"),
    ],
)
def test_prints_with_two_digits_of_the_error(value: float, error: float | None, text: str) -> None:
    assert str(Measurement(value, error)) == text


def test_with_settings_does_not_change_the_original() -> None:
    first = Measurement(1.0, 0.1, {"rows": 3})
    second = first.with_settings(noise=0.005)
    assert first.settings == {"rows": 3}
    assert second.settings == {"rows": 3, "noise": 0.005}
    assert (second.value, second.error) == (1.0, 0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.value = 2.0  # type: ignore[misc]


def test_measurement_can_be_saved_as_json() -> None:
    assert to_json(Measurement(1.0, 0.1, {"rows": 3})) == {
        "class": "fdsm.measurement.Measurement",
        "value": 1.0,
        "error": 0.1,
        "settings": {"rows": 3},
    }


def test_median_has_the_error_of_a_normal_sample(generator: Generator) -> None:
    r"""The error is $\sqrt{π/2} σ/\sqrt n$. A few outliers change neither."""
    x = 3 + 2 * torch.randn(40_000, generator=generator)
    x[:5] = 1e9
    found = median_of(x, scale="any")
    error = math.sqrt(math.pi / 2) * 2 / 200
    assert found.error == pytest.approx(error, rel=0.1)
    assert found.value == pytest.approx(3, abs=4 * error)
    assert found.settings == {"scale": "any", "rows": 40_000}
    assert median_of(x[:1]).error is None
    with pytest.raises(ValueError, match="one value per example"):
        median_of(x[None])
