"""Tests of CelebA."""

from pathlib import Path

import numpy as np
import pytest
import torch

from paper.data import CelebA, DataError

from .. import file_cases
from ..conftest import Home


def faces(n: int) -> dict[str, bytes]:
    """Return images with central 140x140 pixels of `10 + i` and a border of 255."""
    members = {}
    for i in range(n):
        array = np.full((218, 178, 3), 255, np.uint8)
        array[39:179, 19:159] = 10 + i
        members[f"img_align_celeba/{i + 1:06}.png"] = file_cases.encode_png(array)
    return members


def test_images_are_cropped_as_published(home: Home) -> None:
    (home.data / "celeba").mkdir()
    file_cases.write_zip(home.data / "celeba" / "img_align_celeba.zip", faces(20))
    data = CelebA().load()
    assert data.record["rows"] == {"train": 14, "validation": 2, "test": 4}
    order = np.random.RandomState(2019).permutation(20)
    levels = data.train.flatten(1)
    assert (levels == levels[:, :1]).all()
    assert (levels[:, 0] - 10).tolist() == order[:14].tolist()
    assert data.shape == (3, 64, 64)
    assert CelebA(stride=2).load().shape == (3, 32, 32)


def test_a_stride_of_two_keeps_every_second_pixel(home: Home) -> None:
    file_cases.write_images(home.data / "celeba" / "img_align_celeba", 10, 64, 64, 3)
    full, half = CelebA(crop=64).load(), CelebA(crop=64, stride=2).load()
    assert torch.equal(half.train, full.train[..., ::2, ::2])


def test_the_official_partition_is_used(home: Home) -> None:
    (home.data / "celeba").mkdir()
    file_cases.write_zip(home.data / "celeba" / "part.zip", faces(6))
    listed = home.data / "celeba" / "list_eval_partition.txt"
    listed.write_text("".join(f"{i + 1:06}.png {k}\n" for i, k in enumerate([0, 0, 2, 1, 0, 2])))
    data = CelebA(part="part.zip", partition="list_eval_partition.txt").load()
    assert [sorted((x[:, 0, 0, 0] - 10).tolist()) for x in (data.train, data.validation)] == [
        [0, 1, 4],
        [3],
    ]
    assert (data.test[:, 0, 0, 0] - 10).tolist() == [2, 5]
    assert data.record["parts"] == ["the images of part.zip"]
    listed.write_text("000001.png 0\n")
    with pytest.raises(DataError, match=r"does not list the image '000002\.png'"):
        CelebA(part="part.zip", partition="list_eval_partition.txt").load()
    listed.write_text("202599\nimage kind\n")
    with pytest.raises(DataError, match="must have lines such as"):
        CelebA(part="part.zip", partition="list_eval_partition.txt").load()


def test_too_few_images_are_refused_with_the_name_of_the_file(home: Home) -> None:
    (home.data / "celeba").mkdir()
    file_cases.write_zip(home.data / "celeba" / "part.zip", faces(1))
    with pytest.raises(DataError, match=r"part\.zip: 1 rows are too few to hold out 2"):
        CelebA(part="part.zip").load()


def test_the_error_of_a_missing_file_says_where_to_get_it(home: Home) -> None:
    path = home.data / "celeba" / "img_align_celeba.zip"
    with pytest.raises(DataError, match=f"https://mmlab.*put it at {path}"):
        CelebA().load()


def test_a_part_of_the_real_images_is_read(real: Path) -> None:
    file_cases.require_real(real, "celeba/img_align_celeba_part.zip")
    data = CelebA(
        part="img_align_celeba_part.zip", limit=60, partition="list_eval_partition_part.txt"
    ).load()
    assert data.shape == (3, 64, 64)
    assert len(data.train) + len(data.validation) + len(data.test) == 60
    # Faces are redder than they are blue.
    red, _, blue = data.train.float().mean((0, 2, 3)).tolist()
    assert red > blue + 20
