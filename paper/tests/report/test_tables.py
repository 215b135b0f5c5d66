"""The numbers in the tables, against arithmetic by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from paper.report import RowInfo, TargetInfo, read_folders
from paper.report.tables import (
    Table,
    baselines,
    comparison_table,
    group_table,
    main_results,
)

from .report_cases import (
    TARGETS,
    edit,
    published,
    write_row,
    write_table1,
    write_timed,
    write_user_run,
)

LOSS = "exact_sm_loss"
STEP_TIME = "milliseconds_per_iteration"


def column(table: Table, key: str) -> dict[str, str]:
    return {row.label: row.cells[key].text for row in table.rows}


def published_column(table: Table, key: str) -> dict[str, str]:
    return {row.label: row.cells[key].published for row in table.rows}


def test_means_and_standard_errors_over_seeds(runs: list[Path]) -> None:
    """For two seeds the standard error is half their distance."""
    table = group_table(read_folders(runs).groups)
    losses = column(table, LOSS)
    assert losses["SSM"] == "-102.0 ± 2.0"
    assert losses["FD-SSM"] == "-101.25 ± 0.25"
    assert losses["FD-DSM"] == "-97.5 ± 1.5"
    assert column(table, STEP_TIME)["DSM"] == "18.00 ± 0.20"
    assert column(table, "training_time")["DSM"] == "54.5 s"
    assert column(table, "iterations")["DSM"] == "3,000"
    assert column(table, "parameters")["DSM"] == "123,456"
    assert "standard error over seeds" in table.caption
    assert "One seed" not in table.caption


def test_error_of_one_seed_is_marked(runs: list[Path]) -> None:
    table = group_table(read_folders([runs[0] / "0"]).groups)
    assert column(table, LOSS) == {"SSM": "-100.0 ± 1.3†"}
    assert column(table, STEP_TIME) == {"SSM": "23.8"}
    assert "† One seed: ± is the standard error of the measurement" in table.caption
    edit(runs[0] / "0" / "result.json", {"metrics.exact_sm_loss.error": None})
    table = group_table(read_folders([runs[0] / "0"]).groups)
    assert column(table, LOSS) == {"SSM": "-100"}


def test_times_of_user_runs_are_relative_to_the_first_group(runs: list[Path]) -> None:
    ratios = lambda folders: list(
        column(group_table(read_folders(folders).groups), "time_ratio").values()
    )
    assert ratios(runs) == ["1.00", "0.50", "0.75", "0.38"]
    assert ratios(runs[::-1]) == ["1.00", "2.00", "1.33", "2.67"]
    table = group_table(read_folders(runs[::-1]).groups)
    assert "Ratios are relative to FD-DSM." in table.caption


def test_unfinished_runs_are_excluded_and_counted(runs: list[Path]) -> None:
    (runs[0] / "0" / "result.json").unlink()
    (runs[1] / "0" / "result.json").unlink()
    (runs[1] / "1" / "result.json").unlink()
    table = group_table(read_folders(runs).groups)
    assert column(table, LOSS)["SSM"] == "-104.0 ± 1.3†"
    assert column(table, LOSS)["FD-SSM"] == "–"
    assert list(column(table, "seeds").values()) == ["1 of 2", "0 of 2", "2", "2"]
    assert [row.note for row in table.rows] == ["1 unfinished", "2 unfinished", "", ""]
    assert "Means exclude unfinished runs." in table.caption


def test_diverged_run_makes_the_mean_nan(runs: list[Path]) -> None:
    edit(runs[0] / "0" / "result.json", {"metrics.exact_sm_loss.value": math.nan})
    assert column(group_table(read_folders(runs).groups), LOSS)["SSM"] == "nan"


def test_published_numbers_are_beside_ours(tmp_path: Path) -> None:
    """A metric that was only published has a column too."""
    info = published("Table 3", exact_sm_loss=(-2182, 269), nll=(2579, 945))
    target = TargetInfo("table3", "Table 3", {"SSM": info})
    for row in ("SSM", "Taylor-SSM"):
        metrics = {"exact_sm_loss": {"value": -100.0, "error": 1.3}}
        folder = tmp_path / row / "0"
        write_row(folder, "table3", row, 0, {"metrics": metrics}, "MNIST")
    table = group_table(read_folders([tmp_path], [target]).groups)
    assert [one.key for one in table.columns][:2] == [LOSS, "nll"]
    assert published_column(table, LOSS) == {"SSM": "-2,182 ± 269", "Taylor-SSM": "–"}
    assert published_column(table, "nll") == {"SSM": "2,579 ± 945", "Taylor-SSM": "–"}
    assert column(table, "nll") == {"SSM": "–", "Taylor-SSM": "–"}
    loss, nll, *_ = table.columns
    assert (table.has_values(loss), table.has_values(nll)) == (True, False)


def test_ratios_are_relative_to_the_baseline_of_each_row(tmp_path: Path) -> None:
    times = {"DSM": 10, "FD-DSM": 5, "FD-DSM*": 8, "SSM": 40, "SSMVR": 30, "FD-SSM": 10}
    write_timed(tmp_path, "table2", {row: (time, "MNIST") for row, time in times.items()})
    numbers = {"DSM": (282, 3e9), "FD-DSM": (162, 2.7e9), "SSM": (673, 5.1e9)}
    rows = {
        row: replace(
            published("Table 2", ms=numbers[row][0], bytes=numbers[row][1])
            if row in numbers
            else RowInfo(),
            baseline="DSM" if "DSM" in row else "SSM",
        )
        for row in times
    }
    table = group_table(read_folders([tmp_path], [TargetInfo("table2", "", rows)]).groups)
    assert column(table, "time_ratio") == {
        "DSM": "1.00", "FD-DSM": "0.50", "FD-DSM*": "0.80", "SSM": "1.00", "SSMVR": "0.75",
        "FD-SSM": "0.25",
    }  # fmt: skip
    assert published_column(table, "time_ratio")["FD-DSM"] == f"{162 / 282:.2f}"
    assert published_column(table, "memory_ratio")["FD-DSM"] == f"{2.7 / 3:.2f}"
    assert published_column(table, "memory_ratio")["FD-SSM"] == "–"
    assert "FD-DSM to DSM, FD-DSM* to DSM, SSMVR to SSM, FD-SSM to SSM" in table.caption


def test_row_whose_baseline_was_not_run_has_no_ratio(tmp_path: Path) -> None:
    rows = ("MNIST DSM", "MNIST FD-DSM", "Digits FD-DSM")
    times = {row: (float(place), row.split()[0]) for place, row in enumerate(rows, 1)}
    write_timed(tmp_path, "table4", times)
    infos = {row: RowInfo(f"{row.split()[0]} DSM") for row in rows}
    groups = read_folders([tmp_path], [TargetInfo("table4", "", infos)]).groups
    assert {label: base.label for label, base in baselines(groups).items()} == {
        "MNIST DSM": "MNIST DSM", "MNIST FD-DSM": "MNIST DSM",
    }  # fmt: skip
    assert column(group_table(groups), "time_ratio") == {
        "MNIST DSM": "1.00", "MNIST FD-DSM": "2.00", "Digits FD-DSM": "–",
    }  # fmt: skip
    alone = group_table([group for group in groups if group.label == "Digits FD-DSM"])
    assert not {"time_ratio", "memory_ratio"} & {one.key for one in alone.columns}


def test_times_are_compared_only_if_they_were_interleaved(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    edit(folder / "RedWine FD-SSM" / "1" / "result.json", {"timed_with": ["table1/other"]})
    table = group_table(read_folders([folder], TARGETS).groups)
    assert list(column(table, "time_ratio").values()) == ["1.00", "1.20", "–", "0.60"]
    assert "Times of RedWine FD-SSM were measured during training" in table.caption


def test_caption_gives_the_error_that_seeds_share(tmp_path: Path) -> None:
    """All measurements of the NLL have an error of 0.4, except for one row with 0.5 and 0.7."""
    folder = write_table1(tmp_path)
    for seed, error in ((0, 0.5), (1, 0.7)):
        path = folder / "RedWine SSM" / str(seed) / "result.json"
        edit(path, {"metrics.nll.error": error})
    groups = read_folders([folder]).groups
    sentence = "which all seeds share: NLL (nats) ± 0.4 to 0.6."
    assert sentence in group_table(groups).caption
    assert sentence in group_table(groups, ["nll"]).caption
    assert "share" not in group_table(groups, ["bytes"]).caption
    single = read_folders([folder / "RedWine SSM" / "0"]).groups
    assert "share" not in group_table(single).caption


def test_unknown_column_is_refused_with_the_available_ones(tmp_path: Path) -> None:
    groups = read_folders([write_table1(tmp_path)]).groups
    with pytest.raises(LookupError, match=r"no column 'fid'\. Available: nll, "):
        group_table(groups, ["fid"])
    assert [one.key for one in group_table(groups, ["seeds", "nll"]).columns] == ["seeds", "nll"]


def test_every_metric_shown_is_explained(tmp_path: Path) -> None:
    table = group_table(read_folders([write_table1(tmp_path)]).groups)
    explained = dict(table.legend)
    for one in table.columns:
        assert (one.heading in explained) == (one.key in {"nll", STEP_TIME, "bytes",
                                              "milliseconds_with_validation"})  # fmt: skip
    assert explained["NLL (nats)"] == "Negative log-likelihood per test row. Lower is better."


def test_main_columns_are_those_with_published_numbers(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    for path in folder.rglob("result.json"):
        edit(path, {"metrics.other": 1.0})
    table = main_results(read_folders([folder], TARGETS).groups)
    assert [one.key for one in table.columns] == ["nll", STEP_TIME, "time_ratio", "seeds"]
    table = main_results(read_folders([folder]).groups)
    assert [one.key for one in table.columns] == ["nll", "other", STEP_TIME, "seeds"]


def test_comparison_shows_the_model_beside_its_references(tmp_path: Path) -> None:
    (group,) = read_folders([write_user_run(tmp_path / "run")]).groups
    table = comparison_table(group)
    assert [one.heading for one in table.columns] == ["model", "Gaussian", "Gaussian mixture"]
    cells = [[row.label, *(cell.text for cell in row.cells.values())] for row in table.rows]
    assert cells == [
        ["exact SM loss", "-12.30 ± 0.40", "-10.10 ± 0.30", "-14.90 ± 0.50"],
        ["OOD AUC", "0.9100 ± 0.0040", "–", "–"],
    ]
    assert [heading for heading, _ in table.legend] == ["exact SM loss", "OOD AUC"]
