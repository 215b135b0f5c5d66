"""Studies are found, read and drawn; damage is named and survived."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fdsm.report import collect, terminal
from fdsm.report.figure import Graph, Line, Panel
from fdsm.report.graphs import graph
from fdsm.report.page import drawings
from fdsm.report.study_plot import panels
from fdsm.report.training_plot import INK, LIGHT, svg, svg_file

from .folders import study, write_results, write_study


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_study(tmp_path / "figure2")
    (found,) = collect([tmp_path]).studies
    assert (found.target, found.said("title")) == ("figure2", "What figure2 shows")
    assert found.name == "Figure 2: directional derivatives of any order · cpu"
    assert found.shows == "What figure2 shows"
    write_study(tmp_path / "figure2", title="Figure 2: time and error")
    assert collect([tmp_path]).studies[0].shows == "Time and error"
    assert found.numbers["autodiff_growth"].value == pytest.approx(2.9)
    assert found.numbers["autodiff_growth"].error == pytest.approx(0.1)
    (panel,) = found.panels
    assert (panel.x_log, panel.y_log) == (False, True)
    assert panel.lines[0] == Line("error", (1, 2, 4), (0.1, 1e-3, 1e-5), (0.2, 1e-4, 1e-6))
    assert panel.lines[1].reference
    assert found.graphs[0].edges[-1] == (0, 4)
    assert found.settings["network.width"] == 8
    assert found.versions == "fdsm 0.1.0, torch 2.13.0"


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"{}", b'{"findings": 3}', b"[" * 9999])
def test_a_damaged_study_is_named_and_left_out(tmp_path: Path, content: bytes) -> None:
    write_study(tmp_path / "figure2")
    (write_study(tmp_path / "figure1") / "study.json").write_bytes(content)
    collection = collect([tmp_path])
    assert [one.target for one in collection.studies] == ["figure2"]
    (note,) = collection.notes
    assert "figure1/study.json" in note


def test_a_folder_with_nothing_but_a_damaged_study_is_no_error(tmp_path: Path) -> None:
    (write_study(tmp_path / "figure1") / "study.json").write_text("{")
    assert collect([tmp_path]).studies == ()


def changed(**changes: object) -> dict[str, Any]:
    return {"findings": study("x")["findings"] | changes}


def test_a_damaged_panel_leaves_the_others(tmp_path: Path) -> None:
    (whole,) = study("x")["findings"]["panels"]
    torn = whole | {"lines": [{"name": "a", "x": [1, 2], "y": [1]}]}
    loop = {"name": "g", "nodes": ["a"], "edges": [[0, 1]]}
    write_study(tmp_path / "a", **changed(panels=[torn, whole, 3, {}], graphs=[loop]))
    collection = collect([tmp_path])
    (found,) = collection.studies
    assert [panel.title for panel in found.panels] == ["Error against order"]
    assert found.graphs == ()
    assert [note.split(" is left out")[0].rpartition(" ")[2] for note in collection.notes] == [
        "panels[0]", "panels[2]", "panels[3]", "graphs[0]",
    ]  # fmt: skip
    assert "2 x, 1 y and 0 errors" in collection.notes[0]


def test_lists_and_numbers_of_the_wrong_kind_are_nothing(tmp_path: Path) -> None:
    write_study(tmp_path / "a", **changed(panels=7, graphs="no", numbers={"n": {"value": None}}))
    (found,) = collect([tmp_path]).studies
    assert (found.panels, found.graphs) == ((), ())
    assert np.isnan(found.numbers["n"].value)


def test_numbers_that_are_not_finite_are_not_drawn() -> None:
    line = Line("a", (1, 2, 3, 4), (1.0, float("nan"), -1.0, 2.0), (0.1, 0.1, 0.1, 0.1))
    linear, logarithmic = panels([
        Panel("p", "x", "y", (line,)),
        Panel("p", "x", "y", (line,), y_log=True),
    ])
    for drawn, expected in ((linear, [1, -1, 2]), (logarithmic, [1, 2])):
        (curve,) = drawn.figure.axes[0].get_lines()
        np.testing.assert_array_equal(curve.get_ydata(), expected)
    assert "cannot be drawn on these axes: 1." in linear.caption
    assert "cannot be drawn on these axes: 2." in logarithmic.caption
    empty = Line("a", (1,), (float("nan"),))
    assert panels([Panel("p", "x", "y", (empty,))]) == []


def test_a_panel_shows_bands_references_and_logarithms() -> None:
    measured = Line("a", (1, 10, 100), (1.0, 2.0, 3.0), (0.1, 0.2, 3.5))
    theory = Line("b", (1, 100), (1.0, 3.0), reference=True)
    other = Panel("other", "x", "y", (Line("c", (0, 1), (0, 1)), measured))
    first, second = panels([Panel("one", "x", "y", (measured, theory), True, True), other])
    (axes,) = first.figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    solid, dashed = axes.get_lines()
    assert (solid.get_color(), dashed.get_color()) == (LIGHT[0], INK)
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(6.5)
    assert corners.min() == pytest.approx(1 / 3), "below zero there is no logarithm"
    assert [line.get_color() for line in second.figure.axes[0].get_lines()] == [LIGHT[1], LIGHT[0]]
    (band,) = second.figure.axes[0].collections
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(-0.5)
    legend = [text.get_text() for text in first.figure.legends[0].get_texts()]
    assert legend == ["a", "b"]
    assert first.caption == "Bands: one standard error. Dashed: what it is compared with."


def test_a_graph_shows_all_names_and_counts() -> None:
    drawn = graph(Graph("g", ("loss", "mul", "mul", "x" * 40), ((0, 1), (0, 2), (1, 3), (2, 3))))
    assert drawn is not None
    texts = [one.get_text() for one in drawn.figure.axes[0].texts]
    assert texts == ["loss", "mul", "mul", "x" * 21 + "…"]
    assert drawn.caption == "4 nodes in 3 layers, 4 edges. Most often: 2 × mul."
    assert graph(Graph("g", (), ())) is None


def test_drawings_are_the_same_every_time(tmp_path: Path) -> None:
    write_study(tmp_path / "figure2")
    (found,) = collect([tmp_path]).studies
    once, again = ([svg_file(one.figure, "s") for one in drawings(found)] for _ in range(2))
    assert once == again
    assert all('fill="#ffffff"' in one and "xmlns=" in one for one in once)
    assert not any(colour in one for one in once for colour in ("#123456", "#abcdef", "#fedcba"))
    for one in drawings(found):
        assert "#" not in svg(one.figure, "s").replace("url(#", "").replace('href="#', "")


def test_targets_are_in_the_order_of_the_paper(tmp_path: Path) -> None:
    write_results(tmp_path)
    collection = collect([tmp_path])
    console = Console(record=True, width=160)
    with console.capture() as captured:
        console.print(terminal(collection))
    shown = captured.get()
    titles = ("Table 1:", "Figure 1:", "Figure 2:", "Figure 3:", "Theorem 2:")
    places = [shown.index(title) for title in titles]
    assert places == sorted(places)
    assert "2.90 ± 0.10" in shown
    assert "What theorem2 shows" in shown


def test_runs_below_a_study_are_found_too(tmp_path: Path) -> None:
    write_results(tmp_path)
    write_study(tmp_path / "table1")
    collection = collect([tmp_path])
    assert len(collection.studies) == 4
    assert len([one for one in collection.runs if one.target == "table1"]) == 8


def test_a_study_of_which_little_is_known_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.json").write_text(json.dumps({"findings": {}}))
    (found,) = collect([tmp_path]).studies
    assert (found.target, found.name, found.versions) == ("mine", "mine", "")
    assert found.settings == {}
