"""Kill `python -m paper train` again and again, and compare the results with those of whole runs.

    python -m paper.tests.nightly.faults.kills --count 600 --writes 150

Half of the kills come at random times, the others inside the write of a checkpoint. After each
kill every file must be complete, and at most one interval between checkpoints may be lost. A run
is resumed until it ends. Then its model, its last checkpoint, its metrics and its samples must be
those of the uninterrupted run, bit for bit, and no draft of a file may be left. Two processes draw
other random numbers after they were resumed, so only their files and iterations are compared.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from fdsm.training import checkpoint
from fdsm.training.loggers import read_metrics
from paper.runs import Run
from paper.tests.runs.run_cases import identical, last_checkpoint, logged_metrics, model_file
from tests.nightly.faults.moments import PHASES, pause_in_write

from .commands import Command, Prepare
from .pairs import Pair

INTERVAL = 5
"""Iterations between two checkpoints."""
OPTIONS = [
    "--iterations=60", "--compile=off", "--set=network.width=8", "--set=sampling_levels=2",
    "--set=validation_rows=8", "--set=plan.num_samples=4", "--set=plan.log_every=1",
    "--set=plan.validate_every=10", f"--set=plan.checkpoint_every={INTERVAL}",
]  # fmt: skip

Launch = Callable[[Sequence[str | Path], Path, Prepare | None], Command | Pair]
"""Starts a command in one process or in two."""


@dataclass
class Kills:
    """Kills of one run after the other, in a folder.

    Attributes:
        folder: The folder.
        random: Chooses the moments.
        launch: Starts a command.
        stages: Number of kills by what the run was doing.
        phases: Number of kills inside the write of a checkpoint, by phase.
        lost: Numbers of iterations that were lost by a kill.
        runs: Number of runs that were compared with the uninterrupted one.
    """

    folder: Path
    random: random.Random
    launch: Launch = Command
    stages: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    lost: list[int] = field(default_factory=list)
    runs: int = 0

    def __post_init__(self) -> None:
        self.images = write_images(self.folder / "images.npy")
        self.whole = self.folder / "whole"
        times = []
        for _ in range(3):  # the first one starts the server
            shutil.rmtree(self.whole, ignore_errors=True)
            began = time.monotonic()
            command = self.launch(self._begin(self.whole), self.folder / "whole.log", None)
            assert command.wait() == 0, command.output
            times.append(time.monotonic() - began)
        self.seconds = statistics.median(times)

    @property
    def count(self) -> int:
        """Number of kills so far."""
        return self.stages.total()

    def kill_one_run(self, *, in_writes: bool) -> None:
        """Start a run, kill and resume it until it ends by itself, and compare it."""
        folder = self.folder / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        attempt = self._kill_in_write if in_writes else self._kill_at_random
        while attempt(folder):
            self._check_files(folder)
            iteration, saved = logged_iteration(folder), saved_iteration(folder)
            self.lost.append(max(iteration - saved, 0))
            assert self.lost[-1] <= INTERVAL, f"{iteration} iterations done, {saved} saved"
            trained = (folder / "model.safetensors").exists()
            self.stages[
                "after training" if trained else "training" if iteration else "before training"
            ] += 1
        self._compare(folder)
        self.runs += 1

    def _begin(self, folder: Path) -> list[str | Path]:
        if (folder / "config.json").exists():
            return ["train", "--resume", folder, "--compile=off"]
        return ["train", self.images, "--out", folder, *OPTIONS]

    def _kill_at_random(self, folder: Path) -> bool:
        """Return whether a run was killed before its end."""
        delay = self.random.uniform(0, self.seconds)
        command = self.launch(self._begin(folder), self.folder / "killed.log", None)
        command.process.join(delay)
        killed = command.kill()
        assert killed or command.wait() == 0, command.output
        return killed

    def _kill_in_write(self, folder: Path) -> bool:
        number, phase = self.random.randint(1, 6), self.random.choice(PHASES)
        moment = partial(pause_in_write, "checkpoints/0*.safetensors", number, phase)
        command = self.launch(self._begin(folder), self.folder / "killed.log", moment)
        if not _paused(command):
            assert command.wait() == 0, command.output
            return False
        drafts = list((folder / "checkpoints").glob(".*"))
        assert len(drafts) == (phase != "renamed"), f"{phase}: {drafts}"
        assert command.kill()
        self.phases[phase] += 1
        return True

    def _check_files(self, folder: Path) -> None:
        """Require that every file is complete, whenever the process was killed."""
        for path in [*folder.glob("*.safetensors"), *folder.glob("checkpoints/*.safetensors")]:
            checkpoint.load(path)
        for path in folder.glob("*.json"):
            json.loads(path.read_bytes())

    def _compare(self, folder: Path) -> None:
        run, whole = Run.open(folder), Run.open(self.whole)
        assert {path.name for path in folder.rglob(".*")} == {".lock"}, "a draft is left"
        logged = [[line["iteration"] for line in logged_metrics(one)] for one in (run, whole)]
        assert logged[0] == logged[1], "iterations are missing"
        if self.launch is Pair:  # draws other random numbers after it was resumed
            return
        assert identical(model_file(run), model_file(whole)), "the models differ"
        assert identical(last_checkpoint(run), last_checkpoint(whole)), "the checkpoints differ"
        assert logged_metrics(run) == logged_metrics(whole), "the metrics differ"
        assert run.result["metrics"] == whole.result["metrics"], "the results differ"
        samples = [(path / "samples.npy").read_bytes() for path in (folder, self.whole)]
        assert samples[0] == samples[1], "the samples differ"


def write_images(path: Path) -> Path:
    """Write an array of 40 images of noise."""
    np.save(path, np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8))
    return path


def _paused(command: Command | Pair) -> bool:
    """Return whether a process has reached its moment, instead of its end."""
    try:
        return command.connection.poll(120) and bool(command.connection.recv())
    except EOFError:
        return False


def logged_iteration(folder: Path) -> int:
    """Return the last iteration in the metrics."""
    return max((r["iteration"] for r in read_metrics(folder / "metrics.jsonl")), default=0)


def saved_iteration(folder: Path) -> int:
    """Return the iteration of the newest checkpoint."""
    names = [path.stem for path in (folder / "checkpoints").glob("0*.safetensors")]
    return max(map(int, names), default=0)


def main() -> None:
    """Kill runs, and print how often, when, and what was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=600, help="number of kills")
    parser.add_argument("--writes", type=int, default=100, help="of them inside a checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        launch = Command if options.processes == 1 else Pair
        kills = Kills(Path(folder), random.Random(options.seed), launch)
        print(f"An uninterrupted run takes {kills.seconds:.2f} s", flush=True)
        while kills.count < options.count:
            kills.kill_one_run(in_writes=kills.phases.total() < options.writes)
            print(
                f"{kills.count} kills of {kills.runs} runs: {dict(kills.stages)}; inside a "
                f"checkpoint write {kills.phases.total()}: {dict(kills.phases)}; lost at most "
                f"{max(kills.lost)} iterations of {INTERVAL}",
                flush=True,
            )
    print("All runs ended like the uninterrupted run")


if __name__ == "__main__":
    main()
