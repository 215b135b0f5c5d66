"""Times measured with a simulated clock, and bytes that are known."""

import pytest
import torch

from fdsm.evaluation.timing import peak_saved_bytes, single_threaded, time_interleaved


@pytest.mark.parametrize(("clock", "wall"), [("process_time", False), ("perf_counter", True)])
def test_functions_alternate_until_their_total_time_is_reached(
    clock: str, wall: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other round is in reverse order."""
    now, order = [0.0], list[str]()

    def call(name: str, seconds: list[float]) -> None:
        order.append(name)
        now[0] += seconds[order.count(name) - 1]

    monkeypatch.setattr(f"time.{clock}", lambda: now[0])
    functions = {"a": lambda: call("a", [3.0, 1.0, 2.0]), "b": lambda: call("b", [9.0, 8.0])}
    times = time_interleaved(functions, 3, torch.device("cpu"), max_seconds=10.0, wall_clock=wall)
    assert order == ["a", "b", "b", "a", "a"]  # b has used more than 10 seconds
    assert times == {"a": pytest.approx([3.0, 1.0, 2.0]), "b": pytest.approx([9.0, 8.0])}


def test_warm_up_and_preparation_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, prepared = [0.0], list[str]()

    def prepare(name: str) -> None:
        prepared.append(name)
        now[0] += 1000.0

    seconds = iter([100.0, 100.0, 1.0, 2.0])

    def call() -> None:
        now[0] += next(seconds)

    monkeypatch.setattr("time.process_time", lambda: now[0])
    times = time_interleaved({"a": call}, 2, torch.device("cpu"), warm_up=2, prepare=prepare)
    assert times == {"a": [1.0, 2.0]}
    assert prepared == ["a"] * 4


def test_the_number_of_threads_is_restored() -> None:
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


def test_peak_counts_bytes_alive_at_once_and_shared_memory_once() -> None:
    x = torch.ones(10, requires_grad=True)

    def one() -> None:
        y = x.exp()  # saves its result
        loss = (y.exp() * y).sum()  # saves two results; the memory of y is already counted
        loss.backward()  # type: ignore[no-untyped-call]

    assert peak_saved_bytes(one) == 2 * 80
    assert peak_saved_bytes(lambda: [each() for each in (one, one)]) == 2 * 80


def test_ignored_tensors_and_views_of_them_are_not_counted() -> None:
    weight = torch.ones(10, 10, requires_grad=True)
    x = torch.ones(5, 10)
    linear = lambda: (x @ weight.T).exp()  # saves x, and its result
    result = 5 * 10 * 8
    assert peak_saved_bytes(linear, ignore=[weight]) == 2 * result
    assert peak_saved_bytes(linear, ignore=[weight, x]) == result
