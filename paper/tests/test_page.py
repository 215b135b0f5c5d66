"""The page on the reproduction is generated from the committed results."""

import shutil
from pathlib import Path

from paper.document import write

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "paper" / "results"


def test_the_reproduction_is_generated_from_the_results(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results, ignore=shutil.ignore_patterns("figures"))
    page = write(ROOT / "docs/reproduction.md.jinja", results, tmp_path / "docs/reproduction.md")
    assert page.read_bytes() == (ROOT / "docs/reproduction.md").read_bytes()
    drawn, kept = (sorted(p.name for p in (r / "figures").iterdir()) for r in (results, RESULTS))
    assert drawn == kept
