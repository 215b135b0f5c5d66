"""The recipe of images that the user gives no recipe for."""

from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import ImageArray, SyntheticData, spiral
from paper.recipes import image_recipe, padded_size


def array(path: Path, *shape: int, low: int = 0, high: int = 256) -> ImageArray:
    np.save(path, np.random.default_rng(0).integers(low, high, shape, dtype=np.uint8))
    return ImageArray(path)


@pytest.mark.parametrize(("low", "high"), [(0, 256), (200, 210), (7, 8)])
def test_images_are_scaled_to_zero_mean_and_unit_variance(
    tmp_path: Path, low: int, high: int
) -> None:
    """Also dark or flat ones. Equal pixels are not scaled by infinity."""
    source = array(tmp_path / "images.npy", 300, 3, 8, 8, low=low, high=high)
    recipe = image_recipe(source, source.load())
    x = recipe.data.load()
    values = x.transform.deterministic(x.train)
    assert abs(values.mean().item()) < 0.05
    if high - low > 1:
        assert values.std().item() == pytest.approx(1.0, abs=0.05)
    else:
        assert values.std().item() < 0.1


@pytest.mark.parametrize(
    ("shape", "size"), [((28, 28), None), ((12, 32), None), ((30, 22), 32), ((8, 9), 12)]
)
def test_only_images_that_do_not_fit_get_a_border(
    tmp_path: Path, shape: tuple[int, int], size: int | None
) -> None:
    source = array(tmp_path / "images.npy", 20, 1, *shape)
    data = source.load()
    assert padded_size(data) == size
    fitted = image_recipe(source, data).data.load()
    assert fitted.shape[1:] == (shape if size is None else (size, size))
    assert torch.equal(
        fitted.transform.inverse(fitted.transform.deterministic(data.train)).round().byte(),
        data.train,
    )


def test_tables_have_no_default_recipe() -> None:
    source = SyntheticData(spiral(), n=50)
    with pytest.raises(ValueError, match="not images: give --recipe"):
        image_recipe(source, source.load())
