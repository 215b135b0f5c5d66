"""Tests of properties that all transforms share, and of chains."""

import pytest
import torch
from torch import Generator, Tensor

from fdsm.serialize import to_json
from paper.data import Affine, Chain, Identity, Standardize

from .transform_cases import INVERTIBLE, TABLE

case = pytest.mark.parametrize("name", INVERTIBLE)


@case
def test_the_inverse_restores_the_rows(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    torch.testing.assert_close(
        fitted.inverse(fitted.deterministic(x)), x.double(), check_dtype=False
    )


@case
def test_log_det_is_the_log_determinant_of_the_jacobian(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    x = x[:3].double()

    def volume(row: Tensor) -> Tensor:
        jacobian = torch.func.jacrev(lambda r: fitted.deterministic(r[None]).flatten())(row)
        j = jacobian.reshape(jacobian.shape[0], -1)
        return torch.linalg.slogdet(j.T @ j).logabsdet / 2

    expected = torch.stack([volume(row) for row in x])
    torch.testing.assert_close(fitted.log_det(x), expected, rtol=1e-7, atol=1e-7)


@case
def test_restore_gives_the_fitted_transform(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    again = transform.restore(fitted.state())
    y = fitted.deterministic(x)
    assert torch.equal(again.deterministic(x), y)
    assert torch.equal(again.inverse(y), fitted.inverse(y))
    assert to_json(again) == to_json(transform)


@case
def test_the_input_is_not_modified(name: str, generator: Generator) -> None:
    transform, x = INVERTIBLE[name]
    before = x.clone()
    fitted = transform.fit(x)
    fitted.inverse(fitted.sample(x, generator))
    assert torch.equal(x, before)


@case
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    transform, x = INVERTIBLE[name]
    fitted = transform.fit(x)
    first, second = (fitted.sample(x, Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)


def test_a_chain_fits_each_step_to_the_output_of_the_steps_before() -> None:
    fitted = Chain((Affine(2.0, 1.0), Standardize())).fit(TABLE)
    expected = Standardize().fit(2 * TABLE + 1)
    torch.testing.assert_close(fitted.state()["1.mean"], expected.state()["mean"])
    assert set(fitted.state()) == {"1.mean", "1.scale"}


def test_steps_that_need_only_shapes_are_fitted_to_one_row() -> None:
    seen = []

    class Recorder(Identity):
        def fit(self, x: Tensor) -> "Recorder":
            seen.append(len(x))
            return self

    Chain((Recorder(), Standardize(), Recorder())).fit(TABLE)
    assert seen == [len(TABLE), 1]
