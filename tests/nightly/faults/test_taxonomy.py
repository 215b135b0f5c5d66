"""Every kind of fault in docs/reliability.md has a test."""

import re
from pathlib import Path

import fdsm

FOLDER = Path(__file__).parent
PAGE = Path(fdsm.__file__).parents[1] / "docs" / "reliability.md"


def rows() -> list[list[str]]:
    """Return the cells of the rows of the table."""
    section = PAGE.read_text(encoding="utf8").split("## Kinds of faults")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_there_are_at_least_24_kinds_each_with_a_promise_and_a_finding() -> None:
    assert len(rows()) >= 24
    assert all(len(row) == 4 and all(row) for row in rows())
    assert len({fault for fault, *_ in rows()}) == len(rows())


def test_each_kind_names_a_test_that_exists() -> None:
    for fault, _, _, reference in rows():
        found = re.fullmatch(r"`(test_\w+\.py)::(test_\w+)`", reference)
        assert found, fault
        file, name = found.groups()
        assert f"\ndef {name}(" in (FOLDER / file).read_text(encoding="utf8"), name
