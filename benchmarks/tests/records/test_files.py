from pathlib import Path

from benchmarks.records import Record
from benchmarks.records.files import write_results
from benchmarks.records.record import read_record

from ..benchmark_cases import record, trainings


def test_results_are_written_as_json_and_plots(tmp_path: Path) -> None:
    names = lambda files: [path.name for path in files]
    assert names(write_results(record(), tmp_path)) == ["step.json", "step.svg"]
    assert read_record(tmp_path / "step.json", Record) == record()
    assert names(write_results(trainings(), tmp_path)) == [
        "time-to-loss.json", "time-to-loss-wine.svg",
    ]  # fmt: skip
    assert (tmp_path / "step.svg").read_text().startswith("<svg")
