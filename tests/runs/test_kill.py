"""Killed at any moment, a run goes on and ends as if nothing had happened."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fdsm.runs.run import Run
from fdsm.runs.train import train

from .run_cases import TINY, model, same, states, without_times

HEAVY = (
    "network.widths=512,512",  # so that writing checkpoints takes most of the time
    "plan.iterations=240",
    "plan.checkpoint_every=2",
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    whole = Run.create(tmp_path / "whole", replace(TINY, overrides=HEAVY))
    train(whole)
    moments = random.Random(0)
    folder, command = tmp_path / "killed", [sys.executable, "-m", "fdsm", "train", "--threads=1"]
    settings = [f"--set={setting}" for setting in HEAVY]
    begin = [*command, TINY.recipe, *settings, f"--out={folder}"]
    go_on = [*command, f"--resume={folder}", "--trust"]
    drafts = 0
    for _ in range(20):
        process = subprocess.Popen(
            go_on if (folder / "config.json").exists() else begin, stderr=subprocess.DEVNULL
        )
        _wait_until_it_trains(folder, process)
        time.sleep(moments.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        drafts += len(list(folder.glob("checkpoints/.*")))
    done = subprocess.run(go_on, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = Run.open(folder, trust=True)
    assert drafts > 0, "no kill hit a checkpoint that was being written"
    assert not list(folder.glob("checkpoints/.*"))
    assert same(states(run), states(whole))
    assert without_times(run) == without_times(whole)
    assert same(model(run), model(whole))


def _wait_until_it_trains(folder: Path, process: subprocess.Popen[bytes]) -> None:
    path = folder / "metrics.jsonl"
    before = path.stat().st_mtime_ns if path.exists() else 0
    while process.poll() is None:
        if path.exists() and path.stat().st_mtime_ns > before:
            return
        time.sleep(0.01)
