"""Commands compute in float32, as users do, in an empty working directory."""

from pathlib import Path

import pytest
import torch

from paper.__main__ import main

from .command_cases import QUICK, write_photos


@pytest.fixture(autouse=True)
def _as_users_do(_float64: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of images, trained with the default recipe. Do not change it."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("trained")
    main(["train", str(write_photos(folder / "photos")), "--out", str(folder / "run"), *QUICK])
    return folder / "run"
