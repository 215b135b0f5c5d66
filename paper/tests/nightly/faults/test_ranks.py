"""Processes that torchrun started and that are killed, stopped or interrupted."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paper.runs import Run
from paper.runs.distributed.world import Launch, LaunchError, join
from paper.tests.runs.run_cases import last_checkpoint, logged_metrics
from tests.conftest import Launched

from .kills import write_images

LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@contextmanager
def launch(
    folder: Path, *launcher: str, options: tuple[str, ...] = ()
) -> Generator[subprocess.Popen[str]]:
    """Start to train on images in two processes."""
    data = folder.parent / "images.npy"
    if not data.exists():
        write_images(data)
    command = [*LAUNCHER, *launcher, "-m", "paper", "train", str(data), "--out", str(folder)]
    command += ["--iterations", "300", "--set", "plan.checkpoint_every=10", *options]
    command += ["--set", "plan.validate_every=100", "--set", "plan.num_samples=4"]
    command += ["--set", "network.width=8", "--set", "sampling_levels=2"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.terminate()  # torchrun ends its processes


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file exists."""
    end = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def process_of_rank(rank: int, agent: subprocess.Popen[str]) -> int:
    """Return the process id of a rank among the children of torchrun."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    for child in children:
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in environment:
            return int(child)
    raise LookupError(rank)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two processes that nothing disturbs."""
    folder = tmp_path_factory.mktemp("faults") / "undisturbed"
    with launch(folder, "--standalone") as process:
        assert process.wait(timeout=240) == 0
    return Run.open(folder)


@pytest.mark.nightly
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("rendezvous", ["--standalone", "--master-port=29713"])
def test_a_killed_process_is_restarted_and_the_run_ends(
    undisturbed: Run, rank: int, rendezvous: str
) -> None:
    """Several processes draw other random numbers after they were resumed."""
    folder = undisturbed.folder.parent / f"killed-{rank}{rendezvous[:5]}"
    with launch(folder, rendezvous, "--max-restarts", "3") as process:
        wait_for(folder / "checkpoints" / "00000020.safetensors", process)
        os.kill(process_of_rank(rank, process), signal.SIGKILL)
        assert process.wait(timeout=240) == 0
    run = Run.open(folder)
    assert last_checkpoint(run)["iteration"] == last_checkpoint(undisturbed)["iteration"] == 300
    logged, expected = (
        [line["iteration"] for line in logged_metrics(r)] for r in (run, undisturbed)
    )
    assert logged == expected
    assert (folder / "result.json").exists()
    assert not list(folder.parent.glob(f"{folder.name}-*"))


@pytest.mark.nightly
def test_a_killed_process_without_restarts_is_reported(undisturbed: Run) -> None:
    folder = undisturbed.folder.parent / "ended"
    with launch(folder, "--standalone") as process:
        wait_for(folder / "checkpoints" / "00000020.safetensors", process)
        os.kill(process_of_rank(1, process), signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    lines = [line for line in errors.splitlines() if line.startswith("paper: ")]
    assert len(lines) == 1
    assert "process 0 of 2 lost another one, which has ended or does not answer" in lines[0]
    assert lines[0].endswith(f"Continue with: python -m paper train --resume {folder}")


@pytest.mark.nightly
def test_a_stopped_process_leads_to_a_time_out(undisturbed: Run) -> None:
    folder = undisturbed.folder.parent / "stopped"
    with launch(folder, "--standalone", options=("--timeout", "3")) as process:
        wait_for(folder / "checkpoints" / "00000020.safetensors", process)
        stopped = process_of_rank(1, process)
        os.kill(stopped, signal.SIGSTOP)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "process 0 of 2 lost another one" in errors
    assert "Timed out waiting 3000ms" in errors or "Application timeout" in errors
    assert Run.open(folder).checkpoints.numbered()


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_torchrun_stops_all_processes_after_a_checkpoint(
    undisturbed: Run, number: signal.Signals
) -> None:
    folder = undisturbed.folder.parent / f"signal-{number}"
    with launch(folder, "--standalone") as process:
        wait_for(folder / "checkpoints" / "00000020.safetensors", process)
        for rank in (0, 1):  # a terminal sends Ctrl-C to all processes
            if number == signal.SIGINT:
                os.kill(process_of_rank(rank, process), number)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    lines = [line for line in errors.splitlines() if line.startswith("paper: ")]
    assert len(lines) == 1
    assert "A checkpoint was written. Continue with: python -m paper train --resume" in lines[0]
    iteration = int(lines[0].split("iteration ")[1].split()[0])
    assert int(Run.open(folder).checkpoints.numbered()[0].stem) == iteration


def test_a_loss_that_is_not_finite_is_reported_once(launched: Launched) -> None:
    (code, _, errors), (other_code, *other) = (one["diverges"] for one in launched.printed)
    assert (code, other_code) == (1, 1)
    assert errors.count("paper: ") == 1
    assert "Likely causes: the learning rate is too high" in errors.splitlines()[-1]
    assert other == ["", ""]


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        with (
            pytest.raises(LaunchError, match=r"process 0 of 2 .* Is the port taken"),
            join(Launch(size=2), "cpu", 1.0),
        ):
            pass
