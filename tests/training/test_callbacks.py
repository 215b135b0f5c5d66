import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from fdsm.training import (
    EarlyStop,
    IterationEvent,
    JsonLines,
    LogMetrics,
    ProgressBar,
    SaveCheckpoint,
    TensorBoard,
    Validate,
)
from fdsm.training.loggers import records


def moment(iteration: int, loss: float = 0.0, iterations: int = 100) -> IterationEvent:
    return IterationEvent(iteration, iterations, iteration / 2, 7.5, {"loss": loss})


def test_a_record_has_time_and_metrics(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "metrics.jsonl")
    callback = LogMetrics([log], every=2)
    for i in range(1, 6):
        callback(moment(i, loss=10.0 * i, iterations=5))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [2, 4, 5]
    assert json.loads(lines[0]) == {
        "iteration": 2, "seconds": 1.0, "loss": 20.0, "milliseconds": 7.5,
    }  # fmt: skip


def test_a_continued_log_forgets_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = JsonLines(path)
    for i in range(1, 6):
        log({"iteration": i, "loss": 1.0})
    with path.open("a") as file:
        file.write('{"iteration": 6, "lo')  # torn by a kill
    JsonLines(path, iteration=3)({"iteration": 4, "loss": 2.0})
    assert [(r["iteration"], r["loss"]) for r in records(path)] == [
        (1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0),
    ]  # fmt: skip


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoard(tmp_path)
    log({"iteration": 5, "seconds": 1.0, "loss": -2.5})
    log({"iteration": 5, "seconds": 1.0, "validation": {"nll": 3.5}})
    log.writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(5, -2.5)]
    assert [(e.step, e.value) for e in events.Scalars("validation/nll")] == [(5, 3.5)]


def test_validation_keeps_the_best_and_stops_when_there_is_none_for_long() -> None:
    values = {1: 5.0, 2: 3.0, 3: 4.0, 4: 3.0, 5: 3.5}
    best, logged = [], []
    callback = Validate(
        lambda i: {"loss": values[i], "other": -i},
        [logged.append],
        every=1,
        patience=3,
        on_best=lambda m: best.append(m.iteration),
    )
    for i in range(1, 5):
        callback(moment(i))
    with pytest.raises(EarlyStop, match="no better loss than 3 of iteration 2 in 3 iterations"):
        callback(moment(5))
    assert best == [1, 2]
    assert logged[2] == {"iteration": 3, "seconds": 1.5, "validation": {"loss": 4.0, "other": -3}}


def test_validation_goes_on_from_a_state_and_watches_what_it_is_told() -> None:
    callback = Validate(lambda i: {"a": 0.0, "b": float(i)}, [], every=1, watched="b", patience=2)
    callback(moment(1))
    other = Validate(lambda i: {"a": 0.0, "b": float(i)}, [], every=1, watched="b", patience=2)
    other.load_state_dict(callback.state_dict())
    other(moment(2))
    with pytest.raises(EarlyStop, match="no better b than 1 of iteration 1"):
        other(moment(3))


def test_saving_is_done_when_it_is_time() -> None:
    saved: list[int] = []
    callback = SaveCheckpoint(lambda m: saved.append(m.iteration), every=4)
    for i in range(1, 11):
        callback(moment(i, iterations=10))
    assert saved == [4, 8, 10]


def test_the_bar_shows_loss_time_and_position() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with ProgressBar("digits/DSM", console) as bar:
        bar(moment(50, loss=0.25))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "digits/DSM" in text
    assert "50/100" in text
    assert "loss 0.25" in text
    assert "7.5 ms" in text
