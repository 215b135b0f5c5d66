"""The comparison of made-up results is computed by hand."""

import io

import pytest
from rich.console import Console

from benchmarks.outliers.run import Result
from benchmarks.outliers.summary import Results, Section, sections

TABLES = ["a_one", "a_two", "b_three"]
ROWS = {"a_one": (100, 300), "a_two": (1000, 200), "b_three": (149, 199)}


def made_up(table: str, auc: float, seconds: float = 1.0, **more: object) -> Result:
    train_rows, test_normals = ROWS[table]
    sizes = {"train_rows": train_rows, "test_normals": test_normals, "columns": 4}
    return {
        "table": table, "seed": 0, "auc_roc": auc, "auc_pr": auc / 2, "fit_seconds": seconds,
        **sizes, **more,
    }  # fmt: skip


@pytest.fixture
def results() -> Results:
    """Two seeds of fdsm, one result of 1-NN and of 5-NN."""
    p_values = {"a_one": (0.02, 0.04), "a_two": (0.06, 0.08), "b_three": (0.10, 0.30)}
    fdsm = {"a_one": (0.8, 0.9), "a_two": (0.7, 0.7), "b_three": (0.5, 0.7)}
    return Results(
        {
            "fdsm": {
                table: [
                    made_up(table, auc, s, method="fdsm", p_below_level=p, sample_auc=auc - 0.2)
                    for auc, s, p in zip(fdsm[table], (1.0, 3.0), p_values[table], strict=True)
                ]
                for table in TABLES
            },
            "knn1": {
                table: [made_up(table, auc, seconds, method="knn1")]
                for table, auc, seconds in zip(
                    TABLES, (0.85, 0.6, 0.4), (1.0, 2.0, 9.0), strict=True
                )
            },
            "knn5": {
                table: [made_up(table, auc, method="knn5")]
                for table, auc in zip(TABLES, (0.8, 0.9, 0.3), strict=True)
            },
        },
        TABLES,
    )


def find(parts: list[Section], title: str) -> Section:
    (section,) = [part for part in parts if part.title.startswith(title)]
    return section


def test_means_ranks_wins_and_times(results: Results) -> None:
    """AUCs: fdsm .85 .7 .6, 1-NN .85 .6 .4, 5-NN .8 .9 .3; fdsm by seed: mean .6667, .7667."""
    section = find(sections(results), "All tables (3)")
    assert section.header[1:] == ["AUC-ROC", "AUC-PR", "mean rank", "wins", "median s", "mean s"]
    assert section.rows == [
        ["fdsm", "71.67 ± 7.07", "35.83", "1.50", "2", "2.00", "2.00"],
        ["5-NN", "66.67", "33.33", "2.33", "1", "1.00", "1.00"],
        ["1-NN", "61.67", "30.83", "2.17", "1", "2.00", "4.00"],
    ]


def test_groups_are_the_prefixes_of_the_names(results: Results) -> None:
    titles = [section.title for section in sections(results)]
    assert titles[:3] == ["All tables (3)", "a (2)", "b (1)"]
    assert find(sections(results), "b (1)").rows[0][1] == "60.00 ± 14.14"


def test_calibration_of_large_and_small_tables(results: Results) -> None:
    """Large: at least 200 test normals (a_one, a_two). Small: under 150 rows (a_one, b_three)."""
    section = find(sections(results), "Calibration")
    assert section.rows == [["fdsm", "0.100", "0.020", "0.080", "0.115"]]
    assert [name.split("(")[1] for name in section.header[1:]] == [
        "3 tables)", "2 large tables)", "2 large tables)", "2 small tables)",
    ]  # fmt: skip


def test_samples_of_each_group(results: Results) -> None:
    section = find(sections(results), "Samples")
    assert section.header == ["method", "All tables", "a", "b"]
    assert section.rows == [["fdsm", "0.517 ± 0.071", "0.575 ± 0.035", "0.400 ± 0.141"]]


def test_the_best_of_each_table_is_bold(results: Results) -> None:
    section = find(sections(results), "AUC-ROC of each")
    assert section.header == ["table", "rows", "columns", "fdsm", "1-NN", "5-NN"]
    assert section.rows[0] == ["a_one", "100", "4", "**85.0**", "**85.0**", "80.0"]
    assert section.rows[1] == ["a_two", "1000", "4", "70.0", "60.0", "**90.0**"]


def test_a_failure_is_shown_and_its_table_is_left_out_for_all(results: Results) -> None:
    error = {"table": "a_two", "method": "knn5", "seed": 0, "error": "ValueError: NaN"}
    results.by_method["knn5"]["a_two"][0] = error
    parts = sections(results)
    assert find(parts, "All tables (2)").rows[0][:2] == ["fdsm", "72.50 ± 10.61"]
    assert find(parts, "Failures").rows == [["a_two", "5-NN", "0", "ValueError: NaN"]]
    assert find(parts, "AUC-ROC of each").rows[1][3:] == ["**70.0**", "60.0", "failed"]


def test_a_method_that_has_not_finished_is_left_out(results: Results) -> None:
    results.by_method["knn5"]["a_two"][0] = None
    assert results.unfinished("knn5") == 1
    section = find(sections(results), "All tables (3)")
    assert [row[0] for row in section.rows] == ["fdsm", "1-NN"]
    assert [row[4] for row in section.rows] == ["3", "1"]


def test_the_change_is_the_difference_from_complete_tables(results: Results) -> None:
    worse = {
        table: [made_up(table, result["auc_roc"] - 0.02) for result in found if result]
        for table, found in results.by_method["knn1"].items()
    }
    section = sections(Results({"knn1": worse}, TABLES), results)[0]
    assert section.header[2] == "change"
    assert section.rows == [["1-NN", "59.67", "-2.00", "29.83", "1.00", "3", "1.00", "1.00"]]


def test_nothing_is_compared_without_results() -> None:
    assert sections(Results({"knn1": {"a_one": [None]}}, ["a_one"])) == []


def test_a_section_in_markdown_and_in_the_terminal() -> None:
    section = Section("Title", ["method", "AUC"], [["one", "**1.0**"], ["two", "0.5"]], "A note.")
    assert section.markdown() == (
        "## Title\n\n| method | AUC |\n| --- | ---: |\n| one | **1.0** |\n| two | 0.5 |\n\nA note."
    )
    console = Console(file=io.StringIO(), width=40)
    section.show(console)
    printed = console.file.getvalue()
    assert "1.0" in printed
    assert "*" not in printed
    assert "A note." in printed
    narrow = Console(file=io.StringIO(), width=12)
    section.show(narrow)
    assert "0.5" not in narrow.file.getvalue()
