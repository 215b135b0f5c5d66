"""Made-up runs of four methods with two seeds each."""

from pathlib import Path

import pytest

from fdsm.report import write_page

from .folders import write_all


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return the folders of SSM, FD-SSM, DSM and FD-DSM."""
    return write_all(tmp_path / "runs" / "deep_ebm")


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the same folders for tests that change nothing in them."""
    return write_all(tmp_path_factory.mktemp("kept") / "deep_ebm")


@pytest.fixture(scope="session")
def written(kept: list[Path]) -> Path:
    """Return the page on them."""
    return write_page(kept, kept[0].parents[1] / "new" / "page.html", "Runs")
