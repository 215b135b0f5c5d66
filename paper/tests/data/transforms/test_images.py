"""Tests of transforms of images."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator

from paper.data import Flatten, Flip, Pad, Resize

from .transform_cases import LEVELS, TABLE, UNIT


def test_half_of_the_images_are_mirrored(generator: Generator) -> None:
    x = torch.arange(6, dtype=torch.uint8).view(1, 1, 2, 3).repeat(10_000, 1, 1, 1)
    y = Flip().sample(x, generator)
    mirrored = (y == torch.tensor([[2, 1, 0], [5, 4, 3]])).all((1, 2, 3))
    assert ((y == x).all((1, 2, 3)) | mirrored).all()
    assert mirrored.double().mean() == pytest.approx(0.5, abs=5 * 0.005)


def test_resizing_averages() -> None:
    x = torch.rand(3, 1, 8, 8)
    torch.testing.assert_close(
        Resize(4).deterministic(torch.full_like(x, 0.3)), torch.full((3, 1, 4, 4), 0.3)
    )
    torch.testing.assert_close(Resize(8).deterministic(x), x)
    ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    middle = Resize(4).deterministic(ramp)[0, 0, 2, 1:3]
    torch.testing.assert_close(middle, torch.tensor([2.5, 4.5]))


def test_an_odd_border_is_removed_by_the_inverse() -> None:
    x = torch.rand(2, 1, 3, 4)
    pad = Pad(8, value=-1.0).fit(x)
    y = pad.deterministic(x)
    assert y.shape == (2, 1, 8, 8)
    assert (y == -1).sum() == 2 * (64 - 12)
    assert torch.equal(pad.inverse(y), x)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "unfitted-pad": (lambda: Pad(8).inverse(UNIT), r"Pad is not fitted: call fit\(images\)"),
    "unfitted-flatten": (lambda: Flatten().inverse(TABLE), "Flatten is not fitted"),
    "images": (lambda: Pad(8).deterministic(TABLE), r"\(N, C, H, W\)"),
    "too-large": (lambda: Pad(2).deterministic(LEVELS), "3x4 do not fit into 2x2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_arguments_raise(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()
