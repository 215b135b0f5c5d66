"""Tests of recognizing the user's data."""

from pathlib import Path

import numpy as np
import pytest

from paper.data import DataError, ImageArray, ImageFolder, from_path

from .. import file_cases
from ..conftest import Home


def test_the_source_is_chosen_by_the_file(home: Home, tmp_path: Path) -> None:
    file_cases.write_images(tmp_path / "folder", 2)
    file_cases.write_zip(
        tmp_path / "a.zip", {"a.png": file_cases.encode_png(file_cases.random_bytes(8, 8))}
    )
    np.save(tmp_path / "images.npy", file_cases.random_bytes(20, 8, 8))
    expected = {
        "folder": ImageFolder,
        "a.zip": ImageFolder,
        "images.npy": ImageArray,
    }
    for name, kind in expected.items():
        assert from_path(tmp_path / name) == kind(tmp_path / name)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(DataError, match=r"a\.xlsx has an unsupported format\. .*Convert it"):
        from_path(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(DataError, match="For a table use `fdsm train`"):
        from_path(tmp_path / "a.csv")
    with pytest.raises(DataError, match="Give the folder it is in"):
        from_path(tmp_path / "folder" / "00.png")
    with pytest.raises(DataError, match="nothing does not exist"):
        from_path("nothing")
