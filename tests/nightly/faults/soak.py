"""Train one model after the other in one process, and record its memory and open files.

    python -m tests.nightly.faults.soak --minutes 30

Every model is trained, compared and saved, in a folder that is deleted. After the warm-up, the
first fifth of the time, memory must stay the same to 2 % and no more files may be open.
"""

import argparse
import gc
import io
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from fdsm.cli import main as run_command

from ...cli.cli_cases import write_measurements

WARM_UP, TOLERANCE = 0.2, 0.02


@dataclass(frozen=True)
class Reading:
    """Memory and open files after a model.

    Attributes:
        seconds: Time since the start.
        bytes: Resident memory of the process.
        files: Number of open files.
    """

    seconds: float
    bytes: int
    files: int


def soak(minutes: float, *, every: float = 60) -> list[Reading]:
    """Train for some minutes and print a line now and then.

    Args:
        minutes: How long.
        every: Seconds between two lines.

    Returns:
        A reading after each model.
    """
    readings: list[Reading] = []
    printed = began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = write_measurements(folder / "table.csv")
        while not readings or readings[-1].seconds < 60 * minutes:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                run_command(["train", str(table), "--out", str(folder / "m"), "--iterations=15"])
            shutil.rmtree(folder / "m")
            gc.collect()
            readings.append(_read(time.monotonic() - began))
            if time.monotonic() - printed > every:
                printed = time.monotonic()
                print(f"{len(readings)} models: {readings[-1]}", flush=True)
    return readings


def _read(seconds: float) -> Reading:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    return Reading(seconds, pages * os.sysconf("SC_PAGE_SIZE"), files)


def growth(readings: Sequence[Reading]) -> tuple[float, int]:
    """Return by which share memory grew after the warm-up, and by how many the open files.

    Memory is the median over the first and the last quarter of the readings after the warm-up.
    """
    kept = [one for one in readings if one.seconds > WARM_UP * readings[-1].seconds]
    quarter = max(len(kept) // 4, 1)
    first, last = (
        statistics.median(one.bytes for one in part) for part in (kept[:quarter], kept[-quarter:])
    )
    return last / first - 1, max(one.files for one in kept) - kept[0].files


def main() -> None:
    """Train, and fail if memory or the number of open files grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    readings = soak(parser.parse_args().minutes)
    memory, files = growth(readings)
    print(f"{len(readings)} models: memory {100 * memory:+.2f} %, open files {files:+d}")
    sys.exit(memory > TOLERANCE or files > 0)


if __name__ == "__main__":
    main()
