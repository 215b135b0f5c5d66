import json
from pathlib import Path

import pytest

from benchmarks.records import Case, Record, Trainings
from benchmarks.records.record import read_record, write_record
from fdsm.serialize import RecordError

from ..benchmark_cases import FD, record, trainings


def test_ratios_are_those_of_the_fastest_runs_with_quartiles_of_neighbors() -> None:
    """Ratios of neighbors: 2, 4, 2."""
    ratio = record().ratio(record().cost("tiny", FD))
    assert (ratio.fastest, ratio.median, ratio.low, ratio.high) == (2.0, 2.0, 2.0, 3.0)
    assert str(ratio) == "2.00 (2.00-3.00)"


def test_records_are_read_as_written_one_cost_per_line(tmp_path: Path) -> None:
    path = write_record(record(), tmp_path / "new" / "step.json")
    assert read_record(path, Record) == record()
    lines = path.read_text().splitlines()
    assert sum('"samples"' in line for line in lines) == 3
    assert set(json.loads(path.read_text())) >= {"name", "costs", "date", "machine"}
    path = write_record(trainings(), tmp_path / "time-to-loss.json")
    assert read_record(path, Trainings) == trainings()


@pytest.mark.parametrize("text", ["{", '{"class": "fdsm.nothing.Here"}', "{}", "[1]"])
def test_other_files_are_refused_with_their_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text(text)
    with pytest.raises(RecordError, match=r"step\.json"):
        read_record(tmp_path / "step.json", Record)


def test_cases_that_were_not_measured_are_named() -> None:
    with pytest.raises(LookupError, match="SSM, fdsm, gradient on tiny"):
        record().cost("tiny", Case("gradient", "SSM"))
