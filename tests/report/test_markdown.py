"""Tables with the published numbers beside ours, recomputed by hand."""

from pathlib import Path

import pytest

from fdsm.report import collect, markdown, summary
from fdsm.report.baselines import baselines

from .folders import edit, write, write_row, write_table1


def test_a_table_in_markdown(tmp_path: Path) -> None:
    """Half the distance of two seeds, 15 / 20 and 82 / 113; validation is 40 ms every 4 steps."""
    (experiment,) = collect([write_table1(tmp_path)]).experiments
    metrics = ["nll", "milliseconds_per_iteration", "milliseconds_with_validation", "bytes"]
    table, caption = markdown(experiment.groups, metrics).split("\n\n")
    assert table.replace("RedWine ", "").splitlines() == [
        "| method | NLL | NLL, published | ms / iteration | ms / iteration, published "
        "| time / SSM | time ratio, published | ms / iteration with validation "
        "| memory | memory / SSM | seeds |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
        "| SSM | 13.30 ± 0.20 | 13.34 | 20 | 113 | 1.00 | 1.00 | 30 | 20 MB | 1.00 | 2 |",
        "| SSMVR | 13.10 ± 0.20 | 13.13 | 24 | 106 | 1.20 | 0.94 | 34 | 24 MB | 1.20 | 2 |",
        "| FD-SSM | 13.10 ± 0.10 | 13.06 | 15 | 82 | 0.75 | 0.73 | 25 | 15 MB | 0.75 | 2 |",
        "| FD-SSM-all | 13.4 | – | 12 | – | 0.60 | – | 22 | 12 MB | 0.60 | 2 |",
    ]
    assert "standard error over seeds" in caption
    assert "relative to RedWine SSM" in caption
    assert "Published: in the paper" in caption


def test_all_numbers_by_default_and_none_that_are_not_there(tmp_path: Path) -> None:
    (experiment,) = collect([write_table1(tmp_path)]).experiments
    header = markdown(experiment.groups).splitlines()[0]
    assert "| NLL | NLL, published | exact SM loss, published |" in header
    assert "| iterations | seeds |" in header
    assert "−33.28" in markdown(experiment.groups)
    assert markdown(experiment.groups, ["iterations", "seeds"]).startswith(
        "| method | iterations | seeds |\n"
    )
    with pytest.raises(LookupError, match="no number is called 'fid'; there are nll, "):
        markdown(experiment.groups, ["fid"])


def test_the_paper_decides_the_order_of_a_folder_and_the_caller_that_of_folders(
    tmp_path: Path,
) -> None:
    folder = write_table1(tmp_path)
    rows = ["RedWine SSM", "RedWine SSMVR", "RedWine FD-SSM", "RedWine FD-SSM-all"]
    assert [group.row for group in collect([folder]).groups] == rows
    given = [folder / row for row in reversed(rows)]
    assert [group.row for group in collect(given).groups] == rows[::-1]
    assert {group.target for group in collect(given).groups} == {"table1"}
    table = summary(collect(given).groups)
    assert [row.cells["ratio"] for row in table.rows] == ["0.60", "0.75", "1.20", "1.00"]


def write_timed(folder: Path, experiment: str, times: dict[str, tuple[float, str]]) -> None:
    """Write runs of rows whose steps were timed in turn; each has a time and data."""
    for row, (milliseconds, data) in times.items():
        outcome = {
            "milliseconds_per_iteration": milliseconds,
            "bytes": milliseconds,
            "metrics": {},
            "timed_with": [f"{experiment}/{other}" for other in times],
        }
        write_row(folder / row / "0", f"{experiment}/{row}", 0, outcome, data)


def test_every_row_is_compared_with_the_one_by_gradients(tmp_path: Path) -> None:
    times = {"DSM": 10, "FD-DSM": 5, "FD-DSM*": 8, "SSM": 40, "SSMVR": 30, "FD-SSM": 10,
             "Taylor-SSM": 20}  # fmt: skip
    timed = {row: (milliseconds, "MNIST") for row, milliseconds in times.items()}
    write_timed(tmp_path / "table2", "deep_ebm", timed)
    table = summary(collect([tmp_path]).groups)
    ours = {row.label: row.cells["ratio"] for row in table.rows}
    assert ours == {
        "DSM": "1.00", "FD-DSM*": "0.80", "FD-DSM": "0.50", "SSM": "1.00", "SSMVR": "0.75",
        "FD-SSM": "0.25", "Taylor-SSM": "0.50",
    }  # fmt: skip
    theirs = {row.label: row.cells["published ratio"] for row in table.rows}
    assert (theirs["FD-DSM"], theirs["FD-SSM"]) == (f"{162 / 282:.2f}", f"{230 / 673:.2f}")
    memory = {row.label: row.cells["published memory ratio"] for row in table.rows}
    assert (memory["FD-DSM*"], memory["FD-SSM"]) == (f"{3.2 / 3.0:.2f}", f"{3.4 / 5.1:.2f}")
    assert "FD-DSM* to DSM, FD-DSM to DSM, SSMVR to SSM" in table.caption
    assert "time ratio" in [column.title for column in table.columns]


def test_baselines_on_other_data_and_of_other_models_are_apart(tmp_path: Path) -> None:
    rows = {"VAE SSMVR": 4, "VAE FD-SSMVR": 2, "WAE SSMVR": 10, "WAE FD-SSMVR": 9}
    timed = {row: (milliseconds, "MNIST") for row, milliseconds in rows.items()}
    write_timed(tmp_path / "table6", "autoencoder_mnist", timed)
    table = summary(collect([tmp_path]).groups)
    assert [row.cells["ratio"] for row in table.rows] == ["1.00", "0.50", "1.00", "0.90"]
    assert [row.cells["published ratio"] for row in table.rows] == [
        "1.00", f"{3.98 / 5.04:.2f}", "1.00", f"{0.39 / 0.55:.2f}",
    ]  # fmt: skip


def test_what_a_result_says_was_published_does_not_count(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    place = folder / "RedWine SSM" / "0" / "result.json"
    said = {"nll": {"value": 9.5, "error": None, "settings": {"place": "elsewhere"}}, "fid": 3}
    edit(place, {"published": said})
    found = collect([folder]).groups[0].published
    assert set(found) == {"nll", "exact_sm_loss", "milliseconds_per_iteration"}
    assert (found["nll"].value, found["nll"].settings) == (13.34, {"place": "Table 1"})


def test_signs_of_markdown_are_escaped(tmp_path: Path) -> None:
    write(tmp_path / "x" / "0", "SSM", 0, recipe="toy/a|b*_<i>")
    (experiment,) = collect([tmp_path]).experiments
    assert markdown(experiment.groups).splitlines()[2].startswith(r"| a\|b\*\_\<i\> |")


def test_runs_of_the_same_recipe_for_two_targets_are_apart(tmp_path: Path) -> None:
    for target in ("table5", "figure4"):
        write_timed(tmp_path / target, "ncsn", {"SSMVR": (2, "MNIST")})
    collection = collect([tmp_path])
    assert [one.target for one in collection.experiments] == ["table5", "figure4"]
    assert collection.notes == ()
    assert "fid" in collection.groups[0].published
    assert collection.groups[1].published == {}


@pytest.mark.parametrize("target", ["table4", "figure3"])
def test_times_are_compared_on_the_same_data_only(tmp_path: Path, target: str) -> None:
    """A table of all data at once, as in a document; Digits have no row by gradients."""
    rows = ("MNIST DSM", "MNIST FD-DSM", "Fashion-MNIST FD-DSM", "Fashion-MNIST DSM",
            "Digits FD-DSM")  # fmt: skip
    times = {row: (float(place), row.split()[0]) for place, row in enumerate(rows, 1)}
    write_timed(tmp_path / target, "ood", times)
    groups = collect([tmp_path]).groups
    compared = {
        group.row: base.row if base else None
        for group, base in zip(groups, baselines(groups), strict=True)
    }
    assert compared == {
        "MNIST DSM": "MNIST DSM", "MNIST FD-DSM": "MNIST DSM", "Digits FD-DSM": None,
        "Fashion-MNIST DSM": "Fashion-MNIST DSM", "Fashion-MNIST FD-DSM": "Fashion-MNIST DSM",
    }  # fmt: skip
    table = summary(groups)
    assert {row.label: row.cells["ratio"] for row in table.rows} == {
        "MNIST DSM": "1.00", "MNIST FD-DSM": "2.00", "Digits FD-DSM": "–",
        "Fashion-MNIST DSM": "1.00", "Fashion-MNIST FD-DSM": "0.75",
    }  # fmt: skip
    alone = summary([group for group in groups if group.data == "Digits"])
    assert not [column for column in alone.columns if column.key in {"ratio", "memory ratio"}]


def test_times_are_compared_if_they_were_taken_in_turn(tmp_path: Path) -> None:
    folder = write_table1(tmp_path)
    edit(folder / "RedWine FD-SSM" / "1" / "result.json", {"timed_with": ["dkef_uci/other"]})
    table = summary(collect([folder]).groups)
    ratios = {row.label.removeprefix("RedWine "): row.cells["ratio"] for row in table.rows}
    assert ratios == {"SSM": "1.00", "SSMVR": "1.20", "FD-SSM": "–", "FD-SSM-all": "0.60"}
    assert "Times of RedWine FD-SSM are those of training, which cannot be" in table.caption


def test_the_error_that_seeds_share_is_said_below(tmp_path: Path) -> None:
    """All measurements of the NLL have an error of 0.4, except for one row with 0.5 and 0.7."""
    folder = write_table1(tmp_path)
    for seed, error in ((0, 0.5), (1, 0.7)):
        path = folder / "RedWine SSM" / str(seed) / "result.json"
        edit(path, {"metrics.nll.error": error})
    groups = collect([folder]).groups
    said = "on test data that all seeds share: NLL ± 0.4 to 0.6."
    assert said in markdown(groups, ["nll"])
    assert said in summary(groups).caption
    assert "share" not in markdown(groups, ["bytes"])
    single = collect([folder / "RedWine SSM" / "0"]).groups
    assert "share" not in summary(single).caption
