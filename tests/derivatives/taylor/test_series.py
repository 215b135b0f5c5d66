"""Which coefficients a truncated series has, and where they are."""

import pytest
import torch

from fdsm.derivatives.taylor.series import Propagation, Truncation, empty_rows


@pytest.mark.parametrize("order", [1, 2, 5])
def test_one_direction_has_one_coefficient_per_degree(order: int) -> None:
    truncation = Truncation(order)
    assert [truncation.rows(k) for k in range(order + 1)] == list(range(1, order + 2))
    blocks = [truncation.block(k) for k in range(order + 1)]
    assert blocks == [slice(k, k + 1) for k in range(order + 1)]


def test_several_directions_share_one_curvature() -> None:
    truncation = Truncation(2, 3)
    assert [truncation.rows(k) for k in range(3)] == [1, 4, 5]
    assert [truncation.block(k) for k in range(3)] == [slice(0, 1), slice(1, 4), slice(4, 5)]


def test_order_four_along_several_directions_keeps_the_biharmonic_operator() -> None:
    truncation = Truncation(4, 3)
    assert [truncation.rows(k) for k in range(5)] == [1, 4, 10, 13, 14]
    assert [truncation.block(k).start for k in range(5)] == [0, 1, 4, 10, 13]


@pytest.mark.parametrize(
    "truncation", [Truncation(2), Truncation(2, 3), Truncation(6), Truncation(4, 3)]
)
def test_the_degree_is_the_inverse_of_the_number_of_rows(truncation: Truncation) -> None:
    degrees = range(truncation.order + 1)
    assert [truncation.degree(truncation.rows(k)) for k in degrees] == list(degrees)


def test_every_truncation_has_its_own_propagation_and_warnings() -> None:
    first, second = Propagation(), Propagation()
    first.warned.add("relu")
    assert second.warned == set()
    assert Truncation(2).propagation is not Truncation(2).propagation


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_empty_rows_have_the_memory_layout_of_the_rows(memory_format: torch.memory_format) -> None:
    image = torch.zeros(2, 3, 4, 5).contiguous(memory_format=memory_format)
    rows = empty_rows(image[None], 4)
    assert rows.shape == (4, 2, 3, 4, 5)
    assert [row.stride() for row in rows] == [image.stride()] * 4
