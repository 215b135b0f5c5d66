"""Too little memory, limited by the system."""

from functools import partial
from pathlib import Path

import numpy as np

from .commands import run
from .memory import limit_memory


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    """500 columns need weights and batches that do not fit."""
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(3000, 500)))
    limit = partial(limit_memory, 60 * 2**20)
    arguments = ["train", tmp_path / "wide.npy", "--iterations=2", "--out", tmp_path / "m" / "x"]
    code, output = run(arguments, tmp_path / "log", limit)
    assert code == 1
    assert "Traceback" not in output
    assert "memory" in output.splitlines()[-1]
    assert not (tmp_path / "m").exists()
