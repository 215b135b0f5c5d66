"""The built site: links lead somewhere, and every public name is in the reference.

`make docs` builds it and runs these tests. They are skipped where it was not built.
"""

import re
import runpy
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "_build" / "html"

pytestmark = pytest.mark.skipif(
    not (SITE / "objects.inv").exists(), reason="the site was not built: make docs"
)


class Page(HTMLParser):
    """The links, images and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.sources: list[str] = []
        self.feed(path.read_text(encoding="utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in {"img", "script", "source"} and "src" in given:
            self.sources.append(given["src"])
        if tag == "link" and given.get("rel") == "stylesheet":
            self.sources.append(given["href"])


@cache
def page(path: Path) -> Page:
    return Page(path)


def pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


def test_links_inside_the_site_lead_somewhere() -> None:
    wrong = []
    for path in pages():
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment) if target.suffix == ".html" else ""
            if not target.exists() or (anchor and anchor not in page(target).anchors):
                wrong.append(f"{path.relative_to(SITE)}: {link}")
    assert len(pages()) > 200
    assert wrong == []


def test_pages_need_no_network() -> None:
    sources = {source for path in pages() for source in page(path).sources}
    assert any(source.endswith(".png") for source in sources)
    assert [source for source in sources if urlsplit(source).netloc] == []


def test_every_public_name_is_in_the_reference() -> None:
    inventory = pytest.importorskip("sphinx.util.inventory").InventoryFile
    found = inventory.loads((SITE / "objects.inv").read_bytes(), uri="").data
    documented = {
        name for kind, names in found.items() if kind.startswith("py:") for name in names
    }
    modules = runpy.run_path(str(ROOT / "docs" / "conf.py"))["MODULES"]
    public = {
        getattr(module, name): f"{module.__name__}.{name}"
        for module in map(import_module, reversed(modules))
        for name in module.__all__
    }
    assert len(public) > 200
    assert [name for name in public.values() if name not in documented] == []


def test_formulas_are_rendered() -> None:
    """Formulas of docstrings and pages are MathML; no dollar signs are left."""
    text = (SITE / "reference/generated/fdsm.objectives.SSM.html").read_text(encoding="utf8")
    assert text.count("<math") > 1
    for path in pages():
        visible = re.sub(
            r"<(pre|code|script|title)\b.*?</\1>", "", path.read_text(encoding="utf8"), flags=re.S
        )
        assert not re.search(r"\$[^$<>\n]*\\[a-z]+[^$<>\n]*\$", visible), path


def test_language_models_get_a_list_of_pages() -> None:
    lines = (SITE / "llms.txt").read_text(encoding="utf8").splitlines()
    links = re.findall(r"\]\((.*?)\)", "\n".join(lines))
    assert lines[0] == "# fdsm"
    assert {"start.html", "gallery/index.html", "choosing.html"} <= set(links)
    assert [link for link in links if not (SITE / link).exists()] == []
