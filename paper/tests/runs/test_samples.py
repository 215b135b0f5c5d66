"""Samples as arrays and pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from paper.runs.samples import grid, save_sample_file, save_samples


def test_images_are_laid_out_row_by_row() -> None:
    images = torch.arange(6).view(6, 1, 1, 1).expand(6, 1, 200, 200) / 5
    picture = np.asarray(grid(images))
    assert picture.shape == (2 * 201 + 1, 3 * 201 + 1)
    centers = picture[101::201, 101::201]
    assert centers.tolist() == [[0, 51, 102], [153, 204, 255]]
    assert picture[0, 0] == 128


def test_colors_are_kept_and_values_clipped(tmp_path: Path) -> None:
    image = torch.tensor([-5.0, 8.0, 99.0]).view(1, 3, 1, 1).expand(1, 3, 400, 400)
    files = save_samples(tmp_path, image, 16.0)
    assert [file.name for file in files] == ["samples.npy", "samples.png"]
    with Image.open(files[1]) as picture:
        assert picture.getpixel((200, 200)) == (0, 128, 255)
    assert np.array_equal(np.load(files[0]), image.numpy())


def test_small_images_are_enlarged_without_blur() -> None:
    picture = np.asarray(grid(torch.tensor([[0.0, 1.0]]).view(1, 1, 1, 2)))
    assert picture.shape[1] >= 320
    assert set(np.unique(picture)) == {0, 128, 255}


def test_rows_of_numbers_are_an_array(tmp_path: Path) -> None:
    samples = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    (file,) = save_samples(tmp_path / "new", samples, 1.0)
    assert file.name == "samples.npy"
    assert np.load(file).tolist() == samples.tolist()


@pytest.mark.parametrize(
    ("name", "shape", "allowed"),
    [
        ("samples.png", (3, 2), ".npy"),
        ("samples.csv", (3, 1, 8, 8), ".npy or .png"),
        ("samples.txt", (3, 2), ".npy"),
    ],
)
def test_formats_that_do_not_fit_the_samples_are_refused(
    name: str, shape: tuple[int, ...], allowed: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"can be written as {allowed}, not"):
        save_sample_file(tmp_path / name, torch.zeros(shape), 1.0)
    assert not list(tmp_path.iterdir())
