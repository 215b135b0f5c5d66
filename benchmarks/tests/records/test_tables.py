import pytest
from rich.console import Console

from benchmarks.records import Case, Slower
from benchmarks.records.tables import (
    ratio_tables,
    slower_table,
    tables_of,
    target_loss,
    training_tables,
)

from ..benchmark_cases import record, trainings


def test_rows_are_methods_and_the_reference_shows_its_cost() -> None:
    (table,) = ratio_tables(record())
    assert table.head == ("gradient", "tiny")
    assert table.rows == (
        ("plain, torch", "1e+03 ms"),
        ("FD-SSM, fdsm", "2.00 (2.00-3.00)"),
        ("FD-SSM, JAX jit", "3.00 (3.00-3.00)"),
    )
    assert "relative to plain, torch, gradient" in table.title


def test_a_table_in_markdown_has_a_line_for_each_row() -> None:
    lines = tables_of(record())[0].markdown().splitlines()
    assert lines[:3] == ["| gradient | tiny |", "| :-- | --: |", "| plain, torch | 1e+03 ms |"]
    assert len(lines) == 5


def test_the_loss_to_reach_is_that_of_torchebm() -> None:
    assert target_loss(trainings(), "wine") == pytest.approx(-3)
    (table,) = training_tables(trainings())
    ours = next(row for row in table.rows if row[0] == "FD-SSM, fdsm")
    assert ours[1:] == ("-8", "-6", "5.0 s", "2.50 s (0.250)", "30")


def test_slower_cases_are_shown_with_both_ratios() -> None:
    table = slower_table([Slower("tiny", Case("gradient", "SSM"), 2.0, 3.0)])
    assert table.rows == (("SSM, fdsm, gradient", "tiny", "2.00", "3.00", "+50%"),)
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table.terminal())
    assert "+50%" in captured.get()
