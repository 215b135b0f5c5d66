"""Runs that faults are injected into. Tests copy them, and compare with the uninterrupted one."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from paper.runs import Run, SavedModel, TrainingInterrupted, evaluate, train
from paper.tests.recipes.recipe_cases import silent
from paper.tests.runs.run_cases import array_recipe, interrupt_after, write_array

from .kills import write_images

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # they use /proc, limits and capabilities of Linux

SETTINGS = ("plan.patience=40", "plan.validate_every=5", "plan.ema_decay=none", "plan.log_every=1")


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of images. Do not change it."""
    return write_array(tmp_path_factory.mktemp("data") / "images.npy")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of images of 8 × 8, which the default recipe can be trained on."""
    return write_images(tmp_path_factory.mktemp("data") / "pictures.npy")


@pytest.fixture(scope="session")
def whole(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was trained and evaluated without a fault. Do not change it."""
    torch.set_default_dtype(torch.float32)
    run = Run.create(tmp_path_factory.mktemp("whole") / "run", array_recipe(images, *SETTINGS))
    evaluate(train(run), run.recipe.data.load(), silent)
    return run


@pytest.fixture(scope="session")
def _unfinished(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_default_dtype(torch.float32)
    run = Run.create(
        tmp_path_factory.mktemp("unfinished") / "run", array_recipe(images, *SETTINGS)
    )
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(27, patch)
        with pytest.raises(TrainingInterrupted):
            train(run)
    return run.folder


@pytest.fixture
def unfinished(_unfinished: Path, tmp_path: Path) -> Path:
    """A copy of the same run, stopped after iteration 27, with checkpoints of 20 and 27."""
    return Path(shutil.copytree(_unfinished, tmp_path / "unfinished"))


@pytest.fixture
def finished(whole: Run, tmp_path: Path) -> Path:
    """A copy of the run that was trained and evaluated."""
    SavedModel.load(whole)
    return Path(shutil.copytree(whole.folder, tmp_path / "finished"))
