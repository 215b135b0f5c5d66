"""The terminal and Markdown show the same cells as the table."""

import io
import re
from pathlib import Path

from rich.console import Console, RenderableType

from paper.report import (
    Collection,
    group_table,
    markdown,
    read_folders,
    study_table,
    terminal,
)
from paper.report.tables import main_results

from .report_cases import (
    TARGETS,
    edit,
    write_results,
    write_run,
    write_table1,
    write_user_run,
)


def printed(shown: RenderableType, width: int = 200) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(shown)
    return file.getvalue()


def test_markdown_table_has_ours_beside_published(tmp_path: Path) -> None:
    """Half the distance of two seeds, 15 / 20 and 82 / 113; validation is 40 ms every 4 steps."""
    groups = read_folders([write_table1(tmp_path)], TARGETS).groups
    columns = [
        "nll", "milliseconds_per_iteration", "time_ratio", "milliseconds_with_validation",
        "bytes", "memory_ratio", "seeds",
    ]  # fmt: skip
    table, caption = markdown(group_table(groups, columns)).split("\n\n")
    assert table.replace("RedWine ", "").splitlines() == [
        "| method | NLL (nats) | NLL (nats), published | time per iteration (ms) "
        "| time per iteration (ms), published | time ratio | time ratio, published "
        "| time with validation (ms) | memory | memory ratio | seeds |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
        "| SSM | 13.30 ± 0.20 | 13.34 | 20 | 113 | 1.00 | 1.00 | 30 | 20 MB | 1.00 | 2 |",
        "| SSMVR | 13.10 ± 0.20 | 13.13 | 24 | 106 | 1.20 | 0.94 | 34 | 24 MB | 1.20 | 2 |",
        "| FD-SSM | 13.10 ± 0.10 | 13.06 | 15 | 82 | 0.75 | 0.73 | 25 | 15 MB | 0.75 | 2 |",
        "| FD-SSM-all | 13.4 | – | 12 | – | 0.60 | – | 22 | 12 MB | 0.60 | 2 |",
    ]
    assert "Ratios are relative to RedWine SSM." in caption
    assert "Published numbers were" in caption


def test_markdown_shows_a_metric_that_was_only_published(tmp_path: Path) -> None:
    shown = markdown(group_table(read_folders([write_table1(tmp_path)], TARGETS).groups))
    assert "| exact SM loss, published |" in shown.splitlines()[0]
    assert "| exact SM loss |" not in shown
    assert "−33.28" in shown


def test_markdown_of_a_study(tmp_path: Path) -> None:
    study = read_folders([write_results(tmp_path) / "figure2"]).studies[0]
    assert markdown(study_table(study)).splitlines() == [
        "| number | value | measured with |",
        "| :-- | --: | --: |",
        "| autodiff growth | 2.90 ± 0.10 | to 8 |",
    ]


def test_markdown_characters_are_escaped(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "x" / "0", "SSM", 0)
    edit(folder / "config.json", {"recipe.name": "a|b*_<i>"})
    shown = markdown(group_table(read_folders([tmp_path]).groups))
    assert shown.splitlines()[2].startswith(r"| a\|b\*\_\<i\> |")


def test_terminal_shows_the_main_columns(runs: list[Path], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "x", "SSM", 0)
    edit(folder / "config.json", {"recipe.name": "[red]MLE\x1b[31m"})
    collection = read_folders([*runs, folder])
    shown = printed(terminal(collection), 400)
    table = main_results(collection.experiments[0].groups)
    assert table.caption in " ".join(shown.split())
    for row in table.rows:
        cells = [row.label, *(row.cells[one.key].text for one in table.columns)]
        assert cells in [re.split(r" {2,}", line.strip()) for line in shown.splitlines()]
    for heading, meaning in table.legend:
        assert f"{heading}: {meaning}" in shown
    assert "[red]MLE" in shown
    assert "\x1b" not in shown


def test_terminal_keeps_every_number_in_80_columns(tmp_path: Path) -> None:
    collection = read_folders([write_table1(tmp_path)], TARGETS)
    shown = printed(terminal(collection), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    words = " ".join(shown.split())
    table = main_results(collection.groups)
    for row in table.rows:
        assert all(row.cells[column.key].text in words for column in table.columns)
    for number in ("13.30 ± 0.20", "13.34", "0.75", "0.73", "15", "82", "published"):
        assert f" {number} " in words


def test_terminal_has_the_order_of_the_targets(tmp_path: Path) -> None:
    shown = printed(terminal(read_folders([write_results(tmp_path)], TARGETS)))
    places = [shown.index(target.title) for target in TARGETS]
    assert places == sorted(places)
    assert "2.90 ± 0.10" in shown


def test_terminal_describes_a_users_run_and_warns(tmp_path: Path) -> None:
    shown = printed(terminal(read_folders([write_user_run(tmp_path / "run")])))
    words = " ".join(shown.split())
    assert "data: measurements.csv: 1,000 rows" in words
    assert "recipe: table2/FD-SSM" in words
    assert "exact SM loss -12.30 ± 0.40 -10.10 ± 0.30 -14.90 ± 0.50" in words
    assert "Warning: FD-SSM: The model is worse than a Gaussian mixture" in words
    assert "Warning: FD-SSM: Samples differ: x3." in words
    assert "16 × 16" not in words
    assert "exact SM loss: Exact score-matching loss per test row" in words


def test_an_empty_collection_prints_nothing() -> None:
    assert printed(terminal(Collection(()))) == ""
