from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from paper.runs.distributed.world import (
    SINGLE_PROCESS,
    FailedElsewhere,
    Launch,
    LaunchError,
    World,
    is_lost,
    join,
)
from tests.derivatives.processes import free_port, meet, part


def use_world(rank: int, port: int, folder: str) -> None:
    """Write the results of the methods of `World` in one of two processes."""
    meet(rank, port)
    world = World(rank, 2, dist.group.WORLD)

    def fails_from(first: int) -> str:
        def function() -> str:
            if rank >= first:
                raise ArithmeticError(f"failed in {rank}")
            return "worked"

        try:
            return world.together(function)
        except (ArithmeticError, FailedElsewhere) as error:
            return f"{type(error).__name__}: {error}"

    results = {
        "gather": world.gather(rank * 10),
        "broadcast": world.broadcast(f"from {rank}"),
        "by_leader": world.by_leader(lambda: rank),
        "all work": fails_from(2),
        "one fails": fails_from(1),
        "all fail": fails_from(0),
    }
    torch.save(results, Path(folder) / f"{rank}.pt")
    part()


@pytest.mark.nightly
def test_processes_agree_on_results_and_failures(tmp_path: Path) -> None:
    mp.spawn(use_world, (free_port(), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for results in (first, second):
        assert results["gather"] == [0, 10]
        assert results["broadcast"] == "from 0"
        assert results["all work"] == "worked"
    assert first["by_leader"] == 0
    assert second["by_leader"] is None
    assert first["one fails"] == "FailedElsewhere: process 1 has failed"
    assert second["one fails"] == "ArithmeticError: failed in 1"
    assert first["all fail"] == "ArithmeticError: failed in 0"
    assert second["all fail"] == "FailedElsewhere: process 0 has failed"


def test_one_process_is_its_own_leader() -> None:
    assert SINGLE_PROCESS.is_leader
    assert not World(1, 2).is_leader
    assert SINGLE_PROCESS.gather("a") == ["a"]
    assert SINGLE_PROCESS.broadcast("a") == "a"
    with pytest.raises(KeyError):
        SINGLE_PROCESS.together(lambda: {}["missing"])
    with join(Launch(), "cpu", 1.0) as world:
        assert world is SINGLE_PROCESS


def test_launch_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    assert Launch.of_environment().size == 1
    values = {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "job 7",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert Launch.of_environment() == Launch(5, 8, 1, 2, 1, 3, True, "job 7")


def test_restarts_on_several_machines_need_a_store_of_their_own() -> None:
    assert not Launch(size=2, nodes=1, max_restarts=3, shares_store=True).problem("cpu")
    assert not Launch(size=2, nodes=2, max_restarts=0, shares_store=True).problem("cpu")
    assert not Launch(size=2, nodes=2, max_restarts=3, shares_store=False).problem("cuda")
    launch = Launch(size=2, nodes=2, max_restarts=3, shares_store=True)
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in launch.problem("cpu")


def test_several_processes_need_a_device_that_can_communicate() -> None:
    assert not Launch(size=1).problem("mps")
    assert "cpu or cuda, but not on mps" in Launch(size=2).problem("mps")
    with pytest.raises(LaunchError, match="not on mps"), join(Launch(size=2), "mps", 1.0):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:552] Connection closed by peer",
        "Application timeout caused pair closure",  # in a backward pass
        "NCCL communicator was aborted on rank 1",
    ],
)
def test_errors_of_communication_are_recognized(text: str) -> None:
    assert is_lost(RuntimeError(text))
    assert not is_lost(ValueError(text))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
