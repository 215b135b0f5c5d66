"""Tests of standardization and whitening."""

import math
from collections.abc import Callable

import pytest
import torch

from paper.data import Standardize, Whiten

from .transform_cases import TABLE, UNIT


def test_whitened_rows_have_the_identity_as_covariance() -> None:
    z = Whiten().fit(TABLE).deterministic(TABLE)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(4), atol=1e-9, rtol=0)


def test_whiten_equals_the_published_formula() -> None:
    fitted = Whiten().fit(TABLE)
    centered = TABLE - TABLE.mean(0)
    _, s, vt = torch.linalg.svd(centered, full_matrices=False)
    published = vt.T / s * math.sqrt(len(TABLE))
    torch.testing.assert_close(fitted.deterministic(TABLE), centered @ published)


def test_whiten_is_accurate_in_float32() -> None:
    x = TABLE.float()
    fitted = Whiten().fit(x)
    z = fitted.deterministic(x)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.double(), fitted.deterministic(x.double()), atol=1e-6, rtol=1e-6)


def test_standardized_columns_have_mean_zero_and_variance_one() -> None:
    z = Standardize().fit(TABLE).deterministic(TABLE)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(4))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "unfitted": (lambda: Whiten().deterministic(TABLE), r"Whiten is not fitted: call fit\(rows\)"),
    "state": (lambda: Whiten().restore({"mean": TABLE}), r"lacks \['axes', 'scales'\]"),
    "constant": (lambda: Standardize().fit(torch.ones(5, 2)), r"elements \[0, 1\] are constant"),
    "dependent": (
        lambda: Whiten().fit(torch.cat([TABLE, TABLE[:, :1] + TABLE[:, 1:2]], 1)),
        "span only 4 dimensions",
    ),
    "few": (lambda: Whiten().fit(TABLE[:3]), "3 rows of 4 columns span only 2"),
    "nan": (lambda: Standardize().fit(TABLE / 0), "NaN or infinite"),
    "shape": (lambda: Whiten().fit(UNIT), r"put Flatten\(\) before"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_arguments_raise(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()
