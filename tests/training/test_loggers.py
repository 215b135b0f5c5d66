import os
import re
from pathlib import Path

import pytest

from fdsm.training import JsonLines, TensorBoard
from fdsm.training.loggers import read_metrics
from fdsm.untrusted import InputError


def test_resumed_log_drops_records_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = JsonLines(path)
    for i in range(1, 6):
        log({"iteration": i, "loss": 1.0})
    with path.open("a") as file:
        file.write('{"iteration": 6, "lo')  # the process was killed
    JsonLines(path, iteration=3)({"iteration": 4, "loss": 2.0})
    assert [(r["iteration"], r["loss"]) for r in read_metrics(path)] == [
        (1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0),
    ]  # fmt: skip


def test_damaged_lines_are_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"iteration": 1}\n{"iter\n{"iteration": 2}\n7\n\xff\n{"iteration": 3')
    with pytest.warns(UserWarning, match=r"metrics.jsonl is damaged in line 2, 4, 5\. These"):
        assert [record["iteration"] for record in read_metrics(path)] == [1, 2]


def test_missing_log_of_a_run_that_is_resumed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JsonLines(path)
    path.unlink()
    with pytest.warns(UserWarning, match=r"metrics.jsonl is missing\. Records up to iteration 5"):
        JsonLines(path, iteration=5)


def test_tensorboard_receives_the_same_metrics(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoard(tmp_path)
    log({"iteration": 5, "seconds": 1.0, "loss": -2.5})
    log({"iteration": 5, "seconds": 1.0, "validation": {"nll": 3.5}})
    log.writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(5, -2.5)]
    assert [(e.step, e.value) for e in events.Scalars("validation/nll")] == [(5, 3.5)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """Reading a pipe that nobody writes to would wait forever."""
    path = tmp_path / "metrics.jsonl"
    os.mkfifo(path)
    with pytest.raises(InputError, match=re.escape(f"{path} is a pipe")):
        read_metrics(path)
