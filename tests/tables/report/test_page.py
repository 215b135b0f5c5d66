"""The page shows the summary of a model, executes nothing and loads nothing."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fdsm.tables.report
from fdsm.tables.report import Section, write_page
from fdsm.tables.summary import ColumnSummary, Correlations, FileRecord, ScoredRow

from .summary_cases import SCORED, SUMMARY, summary

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}
BARE_ROW = ScoredRow(4, 1.5, 0.3, "", ())
HOSTILE = (
    "</text></svg><script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{$ {{ 7*7 }}"
)


class Page(HTMLParser):
    """A well-formed page: every element is closed, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("page") / "folder" / "report.html"
    assert write_page(path, SUMMARY, [SCORED], title="Wine") == path
    return Page(path)


@pytest.fixture
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plots empty. Drawing them takes most of the time."""
    monkeypatch.setattr("fdsm.tables.report.svg.svg_element", lambda figure, salt: "<svg></svg>")


def test_the_page_shows_rows_columns_samples_and_training(page: Page) -> None:
    assert ["alcohol", "numeric", "0 to 3", "10 %"] in page.rows
    assert ["region", "categorical", "2 categories: north, south", "0"] in page.rows
    assert ["id", "identifier", "unique per row", "25 %"] in page.rows
    first = page.rows.index(["row", "score", "p-value", "id", "alcohol", "region"])
    assert page.rows[first + 1 : first + 5] == [
        ["7", "1,234.50", "0.00067", "a-7", "2.1", "x"],
        ["alcohol is 2.1 (expected about 10.4)region: 'x' is new"],
        ["2", "8.00", "0.02", "a-2", "", "north"],
        ["region is north (expected south)"],
    ]
    assert ["3", "6.00", "0.25", "a-3", "1.0", "south"] in page.rows[first + 5 :]
    assert ["model", "−12.30 ± 0.40"] in page.rows
    assert ["Gaussian mixturebetter", "−14.90 ± 0.50"] in page.rows
    assert "alcohol: the mean of the samples is off." in page.text
    assert re.findall(r"<h2>([^<]*)</h2>", page.source) == [
        "Unusual rows of new.csv", "The table: measurements.csv", "Unusual rows of the table",
        "Can the model be trusted?", "Samples and data", "Correlations", "Technical details",
    ]  # fmt: skip
    pictures = [div.get("aria-label") for div in page.all("div") if div.get("role") == "img"]
    assert pictures == [
        "Distribution of scores", "Share of rows at or above a score", "p-values of held-out rows",
        "Training rows and samples: alcohol", "Training rows and samples: region",
        "Correlations of training rows", "Correlations of samples", "Loss of held-out rows",
    ]  # fmt: skip


def test_flagged_rows_come_first_and_technical_details_last(page: Page) -> None:
    parts = (
        "9 rows, 2 flagged.", "Flagged rows", "a-7", "a-2", "Highest other rows", "a-3",
        "Distribution of scores", "1,320 rows, 3 columns.", "unique per row", "too few for",
        "would be perfect", "The scores still work", "can partly tell", "12,345 parameters",
        "−12.30 ± 0.40", "Loss of held-out rows",
    )  # fmt: skip
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    folded = page.source.index("<details>")
    assert folded > page.source.index("Correlations of samples")
    assert "score-matching" not in page.source[:folded]


def test_the_cells_of_the_reasons_are_marked(page: Page) -> None:
    marked = re.findall(r'<td class="named">([^<]*)</td>', page.source)
    assert marked == ["2.1", "x", "north"]


@pytest.mark.usefixtures("_undrawn")
def test_relations_and_possible_codes_are_shown(tmp_path: Path) -> None:
    columns = (replace(SUMMARY.columns[0], name="sex", possible_codes=2), *SUMMARY.columns)
    relations = ("distance is determined by origin and dest", f"{HOSTILE} is 2")
    shown = summary(columns=columns, relations=relations)
    page = Page(write_page(tmp_path / "page.html", shown, title="Wine"))
    assert "Relations that hold in the table" in page.text
    assert all(relation in page.text for relation in relations)
    assert "<code>--categorical sex</code>" in page.source
    plain = Page(write_page(tmp_path / "page.html", SUMMARY, title="Wine"))
    assert "Relations" not in plain.text
    assert "--categorical" not in plain.text


def test_the_page_is_self_contained(page: Page) -> None:
    assert not page.all("script") + page.all("link") + page.all("img")
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "srcset"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"https?:|@import|url\((?!#)", page.source)
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in page.tags:
        for reference in re.findall(r"url\(#(\w+)\)", " ".join(filter(None, attributes.values()))):
            assert reference in identifiers


def test_colors_of_figures_and_of_the_page_are_the_same(page: Page) -> None:
    from fdsm.tables.report.svg import DATA, NEW

    assert f"--data: {DATA}; --new: {NEW};" in page.source
    used = set(re.findall(r"var\((--[a-z-]+)\)", page.source))
    assert used <= set(re.findall(r"(--[a-z-]+):", page.source))


@pytest.mark.nightly
def test_the_same_summary_gives_the_same_bytes_without_pyplot(page: Page, tmp_path: Path) -> None:
    code = (
        "import sys; from fdsm.tables.report import write_page\n"
        "from tests.tables.report.summary_cases import SCORED, SUMMARY\n"
        "write_page(sys.argv[1], SUMMARY, [SCORED], title='Wine')\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    out = tmp_path / "second.html"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))},
        cwd=Path(__file__).parents[3],
    )
    assert out.read_text(encoding="utf-8") == page.source
    assert done.stdout.strip() == "False"


def test_hostile_texts_are_shown_as_text(tmp_path: Path) -> None:
    region = SUMMARY.histograms[1]
    correlations = SUMMARY.correlations
    assert correlations is not None
    hostile = summary(
        file=FileRecord(HOSTILE, 3, sha256=HOSTILE),
        training=replace(SUMMARY.training, objective=HOSTILE, torch_version=HOSTILE, time=HOSTILE),
        columns=(ColumnSummary(HOSTILE, HOSTILE, HOSTILE, 0.0, used=True),),
        histograms=(
            replace(SUMMARY.histograms[0], column=HOSTILE),
            replace(region, levels=(HOSTILE, "\ud800\x00\x1b"), column="\ud800\x00\u202e"),
        ),
        correlations=Correlations(
            (HOSTILE, "$b$", "c"), correlations.data, correlations.samples, 0
        ),
        problems=(HOSTILE,),
    )
    reasons = f"{HOSTILE} is {HOSTILE} (expected {HOSTILE})"
    rows = (ScoredRow(1, 1.0, 0.5, reasons, (HOSTILE, "\x1b\u202e")),)
    scored = replace(SCORED, name=HOSTILE, columns=(HOSTILE, "\ud800"), flagged_rows=rows)
    path = tmp_path / "page.html"
    write_page(path, hostile, [replace(scored, other_rows=rows)], title=HOSTILE)
    page = Page(path)
    assert len(re.findall(r'<td class="named">', page.source)) == 2
    assert not page.all("script") + page.all("img")
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    assert page.text.count(HOSTILE) > 10
    assert "49" not in re.sub(r"[\d.]{4,}", "", page.text)
    assert not re.search(r"[\x00\x1b\u202e]", page.source)


@pytest.mark.usefixtures("_undrawn")
def test_without_scored_files_the_scores_of_known_rows_are_drawn(tmp_path: Path) -> None:
    page = Page(write_page(tmp_path / "page.html", SUMMARY, title="Wine"))
    assert "<h2>Unusual rows of the table</h2>" in page.source
    assert "fdsm report" in page.text
    assert page.source.count("Distribution of scores</h3>") == 1


@pytest.mark.usefixtures("_undrawn")
def test_parts_that_were_not_measured_are_left_out(tmp_path: Path) -> None:
    bare = summary(correlations=None, histograms=(), sample_auc=None, comparison=None, problems=())
    page = Page(write_page(tmp_path / "page.html", bare, title="Wine"))
    for absent in ("Correlations", "Samples and data", "AUC", "Gaussian", "Warnings"):
        assert absent not in page.text
    empty = replace(
        SCORED, rows=1, flagged=0, not_scored=1, threshold=None, flagged_rows=(), other_rows=()
    )
    page = Page(write_page(tmp_path / "page.html", bare, [empty], title="Wine"))
    assert "1 row, none flagged." in page.text
    assert "Flagged rows" not in page.text
    assert "Highest other rows" not in page.text
    assert "Rows with the highest scores" not in page.text
    without_columns = replace(SCORED, columns=(), flagged_rows=(), other_rows=(BARE_ROW,))
    page = Page(write_page(tmp_path / "page.html", bare, [without_columns], title="Wine"))
    first = page.rows.index(["row", "score", "p-value"])
    assert page.rows[first + 1] == ["4", "1.50", "0.3"]
    assert page.rows[first + 2][0] == "column", "a row without reasons takes one line"
    assert "Rows with the highest scores" in page.text


@pytest.mark.usefixtures("_undrawn")
def test_an_introduction_comes_first(tmp_path: Path) -> None:
    section = Section("Objectives", HOSTILE, ("name", "loss"), [("FD-SSM", "-2 ± 1")], HOSTILE)
    path = tmp_path / "page.html"
    page = Page(write_page(path, SUMMARY, title="Wine", introductions=[section]))
    titles = re.findall(r"<h2>([^<]*)</h2>", page.source)
    assert titles[:2] == ["Objectives", "The table: measurements.csv"]
    assert page.rows[:2] == [["name", "loss"], ["FD-SSM", "−2 ± 1"]]
    assert page.text.count(HOSTILE) == 2


@pytest.mark.usefixtures("_undrawn")
def test_all_columns_are_listed_however_many(tmp_path: Path) -> None:
    columns = tuple(replace(SUMMARY.columns[0], name=f"c{i}") for i in range(200))
    page = Page(write_page(tmp_path / "page.html", summary(columns=columns), title="Wine"))
    assert [row[0] for row in page.rows if row[0][1:].isdigit()] == [c.name for c in columns]


def test_identifiers_of_two_equal_figures_differ(tmp_path: Path) -> None:
    twice = summary(histograms=(SUMMARY.histograms[0],) * 2)
    page = Page(write_page(tmp_path / "page.html", twice, [SCORED, SCORED], title="Wine"))
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers)) > 0


def test_a_failure_leaves_the_previous_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    path.write_text("previous")

    def disk_full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fdsm.tables.report.svg.svg_element", lambda figure, salt: "<svg></svg>")
    monkeypatch.setattr(Path, "write_bytes", disk_full)
    with pytest.raises(OSError, match=r"No space left on device.*page\.html"):
        write_page(path, SUMMARY, title="Wine")
    assert path.read_text() == "previous"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_a_folder_is_not_overwritten_by_the_page(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"Give a file, such as .*report\.html"):
        write_page(tmp_path, SUMMARY, title="Wine")


def test_without_matplotlib_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("plots", "svg"):
        monkeypatch.delitem(sys.modules, f"fdsm.tables.report.{name}", raising=False)
        monkeypatch.delattr(fdsm.tables.report, name, raising=False)
    with pytest.raises(ImportError, match=r"a report needs matplotlib\. Install it with: pip"):
        write_page(tmp_path / "page.html", SUMMARY, title="Wine")
