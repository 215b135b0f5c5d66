"""Differences between kernels: arithmetic by hand, and what the other process is."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paper.run_store import RunStore
from paper.studies import kernels
from paper.studies.kernels import OTHER_KERNELS, KernelSensitivity, train_with_other_kernels

STUDY = KernelSensitivity(("RedWine", "WhiteWine"), ("SSM", "FD-SSM"), 2, ("nll",))


def write_result(run: Path, nll: float) -> None:
    run.mkdir(parents=True)
    (run / "result.json").write_text(json.dumps({"metrics": {"nll": {"value": nll}}}))


def test_deviation_is_the_root_mean_square_difference_over_the_root_of_two() -> None:
    """Of RedWine (1 + 9 + 0 + 0) / 4 = 2.5, halved 1.25; its mean is (1 - 3) / 4."""
    numbers = STUDY.summary(
        "nll",
        {
            "RedWine SSM": [1.0, -3.0],
            "RedWine FD-SSM": [0.0, 0.0],
            "WhiteWine SSM": [2.0, 2.0],
            "WhiteWine FD-SSM": [2.0, 2.0],
        },
    )
    deviation = numbers["standard deviation of a run, RedWine, nll"]
    assert deviation.value == pytest.approx(math.sqrt(1.25))
    assert deviation.settings["runs"] == 4
    assert numbers["standard deviation of a run, WhiteWine, nll"].value == pytest.approx(2**0.5)
    assert numbers["difference, RedWine, nll"].value == pytest.approx(-0.5)
    row = numbers["difference, RedWine SSM, nll"]
    assert (row.value, row.error, row.settings) == (-1.0, 2.0, {"differences": [1.0, -3.0]})


def test_runs_are_compared_seed_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of seed `s` have an NLL of 10 s here, and of 10 s + 2 with other kernels."""
    trained = []

    def train(row: str, seeds: int, scale: str, folder: Path) -> None:
        trained.append((row, scale))
        for seed in range(seeds):
            write_result(folder / "table1" / row / str(seed), 10.0 * seed + 2)

    def evaluated(target: str, row: str, seed: int, progress: object) -> SimpleNamespace:
        folder = tmp_path / target / row / str(seed)
        write_result(folder, 10.0 * seed)
        return SimpleNamespace(folder=folder)

    monkeypatch.setattr(kernels, "train_with_other_kernels", train)
    store = cast(RunStore, SimpleNamespace(scale="cpu", evaluated=evaluated))
    numbers = STUDY.run(store, 0, iter).numbers
    rows = [f"{data} {method}" for data in STUDY.data for method in STUDY.methods]
    assert trained == [(row, "cpu") for row in rows]
    for row in rows:
        assert numbers[f"difference, {row}, nll"].settings["differences"] == [2.0, 2.0]
    assert numbers["standard deviation of a run, WhiteWine, nll"].value == pytest.approx(2**0.5)


def test_the_other_process_trains_a_row_with_other_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, env, **_: calls.append((command, env)))
    train_with_other_kernels("RedWine SSM", 2, "cpu", tmp_path)
    ((command, env),) = calls
    assert command[1:4] == ["-m", "paper", "table1"]
    assert command[4:] == [
        "--row", "RedWine SSM", "--seeds", "2", "--scale", "cpu", "--out", str(tmp_path),
    ]  # fmt: skip
    assert env.items() >= OTHER_KERNELS.items()


def test_the_environment_turns_vector_instructions_off() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **OTHER_KERNELS},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in {"DEFAULT", "NO AVX"}
