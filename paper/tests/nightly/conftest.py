"""Everything in this folder runs at night only."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Do not import these files in the default run."""
    return True if config.option.markexpr == "not nightly" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.nightly)
