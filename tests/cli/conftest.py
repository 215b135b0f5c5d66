"""Commands compute in float32, as users do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fdsm.cli import main

from .cli_cases import QUICK, write_measurements, write_messy


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_measurements(tmp_path / "measurements.csv")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{i:02d}.png")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a table, trained with the default preset. Do not change it."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("trained")
    table = write_measurements(folder / "measurements.csv")
    main(["train", str(table), "--out", str(folder / "run"), *QUICK])
    return folder / "run"


@pytest.fixture(scope="session")
def messy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a table of mixed types. Do not change it."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("messy")
    table = write_messy(folder / "messy.csv")
    main(["train", str(table), "--out", str(folder / "run"), "--iterations=100"])
    return folder / "run"
