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
    Validate,
)


def event(iteration: int, loss: float = 0.0, iterations: int = 100) -> IterationEvent:
    return IterationEvent(iteration, iterations, iteration / 2, 7.5, {"loss": loss})


def test_metrics_are_logged_every_few_iterations_and_at_the_end(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "metrics.jsonl")
    callback = LogMetrics([log], every=2)
    for i in range(1, 6):
        callback(event(i, loss=10.0 * i, iterations=5))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [2, 4, 5]
    assert json.loads(lines[0]) == {
        "iteration": 2, "seconds": 1.0, "loss": 20.0, "milliseconds": 7.5,
    }  # fmt: skip


def test_validation_tracks_the_best_value_and_stops_after_the_patience() -> None:
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
        callback(event(i))
    with pytest.raises(
        EarlyStop,
        match="loss has not improved for 3 iterations; the best value is 3, at iteration 2",
    ):
        callback(event(5))
    assert best == [1, 2]
    assert logged[2] == {"iteration": 3, "seconds": 1.5, "validation": {"loss": 4.0, "other": -3}}


def test_validation_resumes_from_its_state_and_uses_the_chosen_metric() -> None:
    callback = Validate(lambda i: {"a": 0.0, "b": float(i)}, [], every=1, metric="b", patience=2)
    callback(event(1))
    other = Validate(lambda i: {"a": 0.0, "b": float(i)}, [], every=1, metric="b", patience=2)
    other.load_state_dict(callback.state_dict())
    other(event(2))
    with pytest.raises(
        EarlyStop, match="b has not improved for 2 iterations; the best value is 1"
    ):
        other(event(3))


def test_checkpoints_are_saved_every_few_iterations_and_at_the_end() -> None:
    saved: list[int] = []
    callback = SaveCheckpoint(lambda m: saved.append(m.iteration), every=4)
    for i in range(1, 11):
        callback(event(i, iterations=10))
    assert saved == [4, 8, 10]


def test_progress_bar_shows_loss_time_and_iteration() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with ProgressBar("digits/DSM", console) as bar:
        bar(event(50, loss=0.25))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "digits/DSM" in text
    assert "50/100" in text
    assert "loss 0.25" in text
    assert "7.5 ms" in text


def test_progress_bar_is_drawn_when_it_is_old_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("fdsm.training.callbacks.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    bar = ProgressBar("digits/DSM", console)
    drawn = []
    monkeypatch.setattr(bar._progress, "update", lambda task, **fields: drawn.append(fields))
    for i in range(1, 101):
        now[0] = i / 100
        bar(event(i, loss=float(i)))
    assert [fields["completed"] for fields in drawn] == [1, 51, 100]
    assert [fields["loss"] for fields in drawn] == [1.0, 26.0, 50.5]  # means of all losses so far


def test_without_a_terminal_a_line_is_printed_after_3_s_and_every_5_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("fdsm.training.callbacks.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=120)
    bar = ProgressBar("digits/DSM", console)
    for i in range(1, 101):
        now[0] = float(i)
        bar(event(i, loss=2.0))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split(",")[0] for line in lines] == [
        f"iteration {i} of 100" for i in range(3, 101, 5)
    ]
