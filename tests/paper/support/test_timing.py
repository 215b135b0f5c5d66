"""Works that are timed by a clock made by hand."""

import pytest
import torch

from fdsm.paper.support.timing import single_threaded, time_interleaved


def test_works_take_turns_until_they_have_had_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second round goes the other way."""
    clock, order = [0.0], list[str]()

    def work(name: str, seconds: list[float]) -> None:
        order.append(name)
        clock[0] += seconds[order.count(name) - 1]

    monkeypatch.setattr("time.process_time", lambda: clock[0])
    works = {"a": lambda: work("a", [3.0, 1.0, 2.0]), "b": lambda: work("b", [9.0, 8.0])}
    times = time_interleaved(works, 3, torch.device("cpu"), enough=10.0)
    assert order == ["a", "b", "b", "a", "a"]  # b has had its seconds
    assert times == {"a": pytest.approx([3.0, 1.0, 2.0]), "b": pytest.approx([9.0, 8.0])}


def test_threads_come_back_whatever_happens() -> None:
    torch.set_num_threads(2)
    try:
        with single_threaded():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), single_threaded():
            _ = 1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
