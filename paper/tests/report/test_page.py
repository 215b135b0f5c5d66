"""The page shows what is in the files of the runs, and executes and loads nothing."""

import base64
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paper.report import group_table, read_folders, write_page
from paper.report.format import typeset
from paper.report.page import period

from .report_cases import (
    METHODS,
    TARGETS,
    edit,
    write_results,
    write_run,
    write_study,
    write_user_run,
)

VOID = {"meta", "br", "img", "link", "input", "hr"}
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
        self.feed(path.read_text(encoding="utf-8"))
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


def page_of(folders: list[Path], title: str = "Runs") -> Page:
    path = folders[0].parents[1] / "page.html"
    return Page(write_page(read_folders(folders, TARGETS), path, title))


@pytest.fixture
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plots empty. Drawing them takes most of the time."""
    monkeypatch.setattr("paper.report.plots.svg_element", lambda figure, salt: "<svg></svg>")


def delete_logs(folders: list[Path]) -> None:
    """Delete the logs, since plots take most of the time."""
    for folder in folders:
        for path in folder.rglob("metrics.jsonl"):
            path.unlink()


def test_page_shows_the_table_of_results_with_its_legend(kept: list[Path], written: Path) -> None:
    page = Page(written)
    table = group_table(read_folders(kept).groups)
    rows = [[cell.strip() for cell in row] for row in page.rows]
    assert ["method", *(column.heading for column in table.columns)] == rows[0]
    for row, cells in zip(table.rows, rows[1:5], strict=True):
        assert cells == [row.label, *(typeset(row.cells[c.key].text) for c in table.columns)]
    assert table.caption in page.text
    for heading, meaning in table.legend:
        assert f"{heading}{meaning}" in page.text
    assert "16 November 2026, 01:02 – 02:02" in page.text


def test_page_is_self_contained(kept: list[Path], written: Path) -> None:
    page = Page(written)
    images = page.all("img")
    assert len(images) == 8
    for image, run in zip(images, read_folders(kept).runs, strict=True):
        kind, data = str(image["src"]).split(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == run.samples
        assert image["class"] == "pixelated"
    assert len([one for one in page.all("svg") if one.get("class") != "swatch"]) == 6
    assert not page.all("script") + page.all("link")
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "srcset"):
            assert re.match(r"#|data:image/png;|$", attributes.get(name) or "")
    source = written.read_text(encoding="utf-8")
    assert not re.search(r"https?:|@import|url\((?!#)", source)
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in page.tags:
        for reference in re.findall(r"url\(#(\w+)\)", " ".join(filter(None, attributes.values()))):
            assert reference in identifiers


def test_the_same_runs_give_the_same_bytes_without_torch(
    kept: list[Path], written: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from paper.report import read_folders, write_page\n"
        "collection = read_folders([Path(p) for p in sys.argv[2:]])\n"
        "write_page(collection, Path(sys.argv[1]), 'Runs')\n"
        "print([name for name in ('torch', 'matplotlib.pyplot') if name in sys.modules])"
    )
    out = tmp_path / "second.html"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out), *map(str, kept)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )
    assert out.read_bytes() == written.read_bytes()
    assert done.stdout.strip() == "[]"


def test_hostile_strings_are_shown_as_text(runs: list[Path]) -> None:
    for folder in runs:
        for seed in "01":
            edit(
                folder / seed / "config.json",
                {
                    "origin": {"recipe": HOSTILE},
                    "machine": HOSTILE,
                    "started": HOSTILE,
                    "versions": {HOSTILE: HOSTILE},
                    "data": {"name": HOSTILE},
                    "recipe": {
                        "class": HOSTILE,
                        HOSTILE: HOSTILE,
                        "odd": "\ud800\x00\x1b",
                        "name": HOSTILE + folder.name,
                    },
                },
            )
            measured = {"value": 1, "settings": {HOSTILE: HOSTILE}}
            compared = {
                "metric": HOSTILE,
                "model": 1,
                "references": {HOSTILE: 2},
                "better": [HOSTILE],
            }
            changes = {"metrics": {HOSTILE: measured}, "comparisons": [compared]}
            edit(folder / seed / "result.json", {**changes, "problems": [HOSTILE]})
            line = {"iteration": 1, "loss": 1, "milliseconds": 3, "validation": {HOSTILE: 1}}
            (folder / seed / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    page = page_of(runs, HOSTILE)
    assert not page.all("script")
    assert all(str(image["src"]).startswith("data:image/png;base64,") for image in page.all("img"))
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    assert page.text.count(HOSTILE) > 20
    assert "49" not in re.sub(r"[\d.]{4,}", "", page.text)


def test_sections_have_the_order_of_the_targets(tmp_path: Path) -> None:
    results = write_results(tmp_path / "results")
    (write_study(results / "lemma2") / "study.json").write_text("{")
    page = Page(write_page(read_folders([results], TARGETS), tmp_path / "page.html", "All"))
    titles = re.findall(r"<h2>([^<]*)</h2>", (tmp_path / "page.html").read_text())
    assert [title.partition(":")[0] for title in titles] == [
        "Some files could not be read", "Table 1", "Figure 1", "Figure 2", "Figure 3", "Theorem 2",
    ]  # fmt: skip
    assert "Table 1: kernels · RedWine · cpu" in titles
    assert "10 runs of 6 configurations, and 3 studies." in page.text
    assert "results/lemma2/study.json cannot be read" in page.text
    rows = [[cell.strip() for cell in row] for row in page.rows]
    assert rows[0][:3] == ["method", "NLL (nats)published", "exact SM losspublished"]
    assert rows[0][3] == "time per iteration (ms)published"
    assert rows[1][:4] == ["RedWine SSM", "13.30 ± 0.2013.34", "–−33.28", "20113"]
    assert rows[4][:4] == ["RedWine FD-SSM-all", "13.4", "–", "12"]
    assert ["autodiff growth", "2.90 ± 0.10", "to 8"] in rows
    assert page.text.count("Results of figure2") == 1
    assert "Source of table1/RedWine SSM." in page.text
    assert "Sec. 3.3; the range of T is ours." in page.text
    assert page.text.count("Error against order") == 3
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.usefixtures("_undrawn")
def test_a_users_run_is_described_without_the_provenance_of_the_paper(tmp_path: Path) -> None:
    page = page_of([write_user_run(tmp_path / "runs" / "measurements")])
    rows = [[cell.strip() for cell in row] for row in page.rows]
    assert "measurements.csv: 1,000 rows (800 train, 100 validation, 100 test)" in page.text
    assert "table2/FD-SSM" in page.text
    assert "16 × 16" not in page.text
    assert ["metric", "model", "Gaussian", "Gaussian mixture"] in rows
    assert ["exact SM loss", "−12.30 ± 0.40", "−10.10 ± 0.30", "−14.90 ± 0.50"] in rows
    assert "Warning: FD-SSM" in page.text
    assert "The model is worse than a Gaussian mixture" in page.text
    assert "Samples differ: x3." in page.text


def test_a_hostile_study_is_shown_as_text(tmp_path: Path) -> None:
    line = {"name": HOSTILE, "x": [1], "y": [1]}
    panel = {"title": HOSTILE, "x_label": HOSTILE, "y_label": HOSTILE, "lines": [line]}
    findings = {"numbers": {HOSTILE: 1}, "panels": [panel]}
    said = dict.fromkeys(("study", "title", "provenance", "scale", "machine", "started"), HOSTILE)
    write_study(tmp_path / "runs" / "x", findings=findings, settings={HOSTILE: HOSTILE}, **said)
    page = page_of([tmp_path / "runs" / "x"])
    assert not page.all("script")
    assert not page.all("img")
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    assert page.text.count(HOSTILE) > 10


def test_only_settings_that_differ_are_compared(written: Path) -> None:
    page = Page(written)
    rows = page.rows
    start = next(i for i, row in enumerate(rows) if row[0] == "setting")
    end = next(i for i, row in enumerate(rows) if i > start and row[0] == "setting")
    assert [cell.strip() for cell in rows[start][1:]] == list(METHODS)
    assert {row[0]: row[1:] for row in rows[start + 1 : end]} == {
        "objective.derivative.class": ["Autodiff", "FiniteDifference"] * 2,
        "objective.derivative.accuracy": ["–", "2"] * 2,
        "objective.projection.class": ["Sphere", "Sphere", "–", "–"],
        "objective.projection.radius": ["1.0", "0.1", "–", "–"],
        "objective.sigma": ["–", "–", "0.3", "0.3"],
    }
    marked = [a for a in page.all("tr") if a.get("class") == "differs"]
    assert len(marked) == 3 + 4 + 2 + 3
    assert "measured differently" not in page.text


def test_metrics_measured_with_other_settings_are_listed(runs: list[Path]) -> None:
    delete_logs(runs)
    edit(runs[0] / "0" / "result.json", {"metrics.ood_auc.settings.noise": 0.2})
    edit(runs[1] / "0" / "result.json", {"metrics.ood_auc.settings.log_partition": 0.5})
    page = page_of(runs)
    assert "measured differently" in page.text
    assert ["ood_auc.noise", "0.2", "0.1", "0.1", "0.1"] in page.rows
    assert not [row for row in page.rows if row[0] == "ood_auc.log_partition"]


def test_unfinished_runs_and_damage_are_marked(runs: list[Path], written: Path) -> None:
    assert "unfinished" not in Page(written).text
    delete_logs(runs)
    (runs[3] / "1" / "result.json").unlink()
    (runs[2] / "0" / "config.json").write_text("{")
    page = page_of(runs)
    assert "1 run has not finished" in page.text
    assert any(row[0].strip() == "FD-DSM1 unfinished" for row in page.rows)
    assert any(row[:3] == [" FD-DSM", "1", "unfinished"] for row in page.rows)
    assert "DSM/0/config.json cannot be read" in page.text


def test_a_page_is_written_if_all_files_are_damaged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "0", "SSM", 0)
    (folder / "config.json").write_text("{")
    assert "0/config.json cannot be read" in page_of([folder]).text


def test_a_run_with_an_empty_config_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "0"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert "unfinished" in page_of([folder]).text
    assert period(read_folders([folder]).runs) == ""


@pytest.mark.usefixtures("_undrawn")
def test_more_groups_than_colors_are_dashed(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / "runs" / f"{i}", "SSM", 0) for i in range(8)]
    for place, folder in enumerate(folders):
        edit(folder / "config.json", {"recipe.name": f"method {place:02}"})
        if place:
            (folder / "metrics.jsonl").unlink()
    page = page_of(folders)
    dashes = [one.get("stroke-dasharray") for one in page.all("line")][:8]
    assert dashes == [None] * 6 + ["5 2"] * 2


def test_a_folder_is_not_overwritten_by_the_page(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"Give a file, such as .*report\.html"):
        write_page(read_folders(runs[:1]), tmp_path)


def test_without_matplotlib_the_error_says_what_to_install(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import paper.report

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("plots", "training_curves"):
        monkeypatch.delitem(sys.modules, f"paper.report.{name}", raising=False)
        monkeypatch.delattr(paper.report, name, raising=False)
    with pytest.raises(ImportError, match=r"a report needs matplotlib\. Install it with: pip"):
        write_page(read_folders(runs), tmp_path / "page.html")
