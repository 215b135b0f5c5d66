"""Made-up runs of four methods with two seeds each."""

from pathlib import Path

import pytest

from paper.report import read_folders, write_page

from .report_cases import write_runs


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return the folders of SSM, FD-SSM, DSM and FD-DSM."""
    return write_runs(tmp_path / "runs" / "image")


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the same folders for tests that do not change them."""
    return write_runs(tmp_path_factory.mktemp("kept") / "image")


@pytest.fixture(scope="session")
def written(kept: list[Path]) -> Path:
    """Return the page on these folders."""
    return write_page(read_folders(kept), kept[0].parents[1] / "new" / "page.html", "Runs")
