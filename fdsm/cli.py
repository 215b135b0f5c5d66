"""The command line: every function marked `@app.command` is a command, its arguments the options.

Heavy imports belong inside the functions, so that `fdsm --help` answers at once.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.extras import SubcommandApp

from . import __version__

if TYPE_CHECKING:
    from rich.table import Table

    from .experiments.density import Learnt

app = SubcommandApp()


@app.command
def demo(out: Path = Path("runs/demo"), seed: int = 0, iterations: int = 1500) -> None:
    """Learn a two-dimensional density by SSM, FD-SSM and FD-DSM, and draw it.

    Takes less than a minute and ends with a table and a figure.

    Args:
        out: The folder for the results.
        seed: Decides everything but the times.
        iterations: How many batches to train on.
    """
    _require("matplotlib", extra="report")
    if iterations < 1:
        sys.exit(f"fdsm: --iterations must be at least 1, but got {iterations}")
    _make_folder(out)

    from rich.console import Console

    from .experiments import density
    from .report import density as report

    console = Console()
    learnt = density.run(out, iterations=iterations, seed=seed, console=console)
    figure = report.save(out)
    console.print(_table(learnt))
    for path in (out / "result.json", out / "density.npz", figure):
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


def _table(learnt: "dict[str, Learnt]") -> "Table":
    from rich.table import Table

    from .experiments.density import METHODS

    before = learnt["SSM"].curve[0].fisher
    table = Table(caption=f"Fisher divergence before training: {before:.1f}")
    table.add_column("method")
    for heading in (
        "values per\nexample",
        "nested\ngradients",
        "ms per\niteration",
        "time\n/ SSM",
        "Fisher\ndivergence",
        "KL\n(nats)",
    ):
        table.add_column(heading, justify="right")
    for name, result in learnt.items():
        table.add_row(
            name,
            str(METHODS[name].values),
            str(METHODS[name].gradients),
            f"{result.milliseconds:.2f}",
            f"{result.milliseconds / learnt['SSM'].milliseconds:.2f}",
            f"{result.curve[-1].fisher:.3f}",
            f"{result.kl:.4f}",
        )
    return table


def _require(module: str, *, extra: str) -> None:
    if find_spec(module) is None:
        sys.exit(f"fdsm: this needs {module}: pip install 'fdsm[{extra}]'")


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"fdsm: cannot write to {path}: {error.strerror}; choose another with --out")


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        argv: The command and its options; those of the process by default.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"fdsm {__version__}")
        return
    app.cli(
        prog="fdsm",
        description="Score matching by finite differences and by autodiff. "
        "`fdsm --version` prints the version.",
        args=arguments,
    )
