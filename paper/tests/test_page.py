"""The page is generated from the committed results, and documented commands exist."""

import re
import shutil
from pathlib import Path

import pytest

from paper.catalogue import DEMOS, TARGETS
from paper.commands import COMMANDS
from paper.commands.targets import parser
from paper.document import write

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "paper" / "results"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_reproduction_is_generated_from_the_results(tmp_path: Path) -> None:
    results = tmp_path / "paper" / "results"
    shutil.copytree(RESULTS, results, ignore=shutil.ignore_patterns("figures"))
    page = write(ROOT / "docs/reproduction.md.jinja", results, tmp_path / "docs/reproduction.md")
    assert page.read_bytes() == (ROOT / "docs/reproduction.md").read_bytes()
    drawn, kept = (sorted(p.name for p in (r / "figures").iterdir()) for r in (results, RESULTS))
    assert drawn == kept


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_documented_commands_have_these_targets_and_options(page: Path) -> None:
    names = {"", "NAME", "all", *(target.name for target in (*TARGETS, *DEMOS))}
    text = page.read_text(encoding="utf8")
    for arguments in re.findall(r"python -m paper(?=[\s`])([^`#\n]*)", text):
        words = arguments.split()
        if words[:1] and words[0] in COMMANDS:
            continue
        assert parser().parse_args(words).name in names
