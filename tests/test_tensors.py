import numpy as np
import pytest
import torch

from fdsm.tensors import (
    dimension,
    dot,
    length,
    per_example,
    require_floating,
    require_tensor,
    require_values,
    tile,
)


@pytest.mark.parametrize("event", [(), (3,), (2, 3, 4)])
def test_inner_products_and_lengths_of_events(event: tuple[int, ...]) -> None:
    a, b = torch.randn(2, 5, *event)
    rows = [(x.flatten(), y.flatten()) for x, y in zip(a, b, strict=True)]
    torch.testing.assert_close(dot(a, b), torch.stack([x @ y for x, y in rows]))
    torch.testing.assert_close(length(a), torch.stack([(x @ x).sqrt() for x, _ in rows]))
    assert dimension(a) == rows[0][0].numel()
    assert (a * per_example(torch.arange(5.0), a)).shape == a.shape


def test_length_of_the_last_dimensions() -> None:
    v = torch.randn(4, 5, 3)
    torch.testing.assert_close(length(v, 1), v.norm(dim=2))
    assert length(v, 2, keepdim=True).shape == (4, 1, 1)


def test_tile_repeats_the_batch() -> None:
    assert tile(torch.tensor([[1], [2]]), 2).flatten().tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones(3), r"got numpy.ndarray: use torch.from_numpy\(x\)"),
        ([1.0], r"got list: use torch.as_tensor\(x\)"),
        (None, "got NoneType"),
    ],
)
def test_other_types_are_refused(x: object, message: str) -> None:
    with pytest.raises(TypeError, match=f"expected a torch.Tensor, {message}"):
        require_tensor(x)


def test_tensors_without_real_values_are_refused() -> None:
    with pytest.raises(TypeError, match=r"floating-point data but got torch.int64"):
        require_floating(torch.ones(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="meta device"):
        require_values(torch.ones(3, device="meta"))
