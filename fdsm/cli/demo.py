"""`fdsm demo`: five objectives on digits, and unusual rows of a table."""

import csv
import shlex
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .printing import console, log, progress, report_files
from .score import score
from .train import train

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table
    from torch import Generator, Tensor, nn
    from torch.optim import Optimizer

    from ..measurement import Measurement
    from ..tables.report import Section
    from ..typing import Objective

DIAGNOSIS = "diagnosis"
SHOWN_ROWS = 5
"""Number of rows that are shown with their reasons."""
NOISE, STEP, DIRECTIONS = 0.3, 0.1, 4
"""Noise of the digits, step of finite differences, and random directions per image."""
STEPS, BATCH, HELD_OUT, SKIPPED = 600, 128, 297, 20
"""Training steps, images per step, held-out images, and first steps that are not timed."""


HEADER = ("objective", "directions", "ms per step", "relative to SSM", "held-out loss")


class Trained(NamedTuple):
    """What an objective has learned.

    Attributes:
        name: The objective.
        directions: Number of random directions per image, or 0.
        milliseconds: Median time of a training step.
        loss: Exact score-matching loss on held-out images. Lower is better.
    """

    name: str
    directions: int
    milliseconds: float
    loss: "Measurement"


def demo(out: Path = Path("runs/demo")) -> None:
    """Compare five objectives on digits, find tumors in a table, and write one page.

    First DSM, FD-DSM, SSM, FD-SSM and Taylor-SSM learn the density of the digits of scikit-learn.
    Then `fdsm train` learns the benign rows of its breast-cancer table, and `fdsm score` finds the
    malignant ones and says why. This takes a few minutes.

    Args:
        out: Folder of the results. A model of the table that is there is used again.
    """
    from ..tables.report import Section, write_page
    from ..tables.summary import read_scores, read_summary

    trained = compare_objectives()
    section = Section(
        "Five objectives on 8 × 8 digits",
        f"Each trains the same network, {STEPS} steps of {BATCH} images. {_verdict(trained)}",
        HEADER,
        [_cells(row, trained) for row in trained],
        f"Time is the median of steps that were taken in turn. The loss is that of exact score "
        f"matching on {HELD_OUT} held-out images. Lower is better; ± is the standard error.",
    )
    console(stderr=False).print(_rich_table(section.header, section.rows))
    print(f"Lower is better. {_verdict(trained)}")
    model, scores = _find_tumors(out)
    tumors = _summarize_scores(scores)
    print(tumors.text)
    for cells in tumors.rows:
        print("  row {}, {}, score {}:\n    {}".format(*cells))
    summary = read_summary(model / "summary.json")
    page = write_page(
        out / "demo.html",
        summary,
        [read_scores(scores, summary)],
        title="fdsm: five objectives, and unusual rows of a table",
        introductions=[section, tumors],
    )
    report_files([page], json=False)
    log(f"Open {page} in a browser. Next: fdsm train YOUR_TABLE.csv")


def compare_objectives() -> list[Trained]:
    """Train one network with each objective, a step of each in turn, on noisy digits.

    All of them learn the same density: that of digits with noise of standard deviation 0.3.

    Returns:
        The objectives with their times and losses.
    """
    import torch
    from torch import Generator, nn

    from .. import DSM, SSM, Autodiff, FiniteDifference, SlicedDSM, Sphere, Taylor
    from ..evaluation import exact_sm_loss

    torch.set_num_threads(1)
    generator = Generator().manual_seed(0)
    images = _digits()[torch.randperm(1797, generator=generator)]
    train_images, held_out = images[:-HELD_OUT], images[-HELD_OUT:]
    held_out = held_out + NOISE * torch.randn(held_out.shape, generator=generator)
    sphere = Sphere(STEP)
    objectives: dict[str, tuple[Objective, int]] = {
        "DSM": (DSM(NOISE), 0),
        "FD-DSM": (
            SlicedDSM(NOISE, FiniteDifference(), sphere, directions=DIRECTIONS),
            DIRECTIONS,
        ),
        "SSM": (SSM(Autodiff(), sphere, directions=DIRECTIONS), DIRECTIONS),
        "FD-SSM": (SSM(FiniteDifference(), sphere, directions=DIRECTIONS), DIRECTIONS),
        "Taylor-SSM": (SSM(Taylor(), sphere, directions=DIRECTIONS), DIRECTIONS),
    }
    models, steps = {}, {}
    for name, (objective, _) in objectives.items():
        torch.manual_seed(0)
        hidden = [m for d in (64, 128, 128) for m in (nn.Linear(d, 128), nn.SiLU())]
        models[name] = nn.Sequential(*hidden, nn.Linear(128, 1), nn.Flatten(0))
        optimizer = torch.optim.Adam(models[name].parameters(), lr=1e-3)
        steps[name] = _training_step(objective, models[name], optimizer)
    times: dict[str, list[float]] = {name: [] for name in objectives}
    for i in progress("Training five networks on digits")(range(STEPS)):
        batch = train_images[torch.randint(len(train_images), (BATCH,), generator=generator)]
        noisy = batch + NOISE * torch.randn(batch.shape, generator=generator)
        for name, step in steps.items():
            began = time.process_time()
            step(batch if name.endswith("DSM") else noisy, generator)
            if i >= SKIPPED:
                times[name].append(1000 * (time.process_time() - began))
    return [
        Trained(
            name, directions, statistics.median(times[name]), exact_sm_loss(models[name], held_out)
        )
        for name, (_, directions) in objectives.items()
    ]


def _digits() -> "Tensor":
    """Return the images of scikit-learn, from 0 to 1, shape `(1797, 64)`."""
    import torch

    from ..extras import name_missing_extra

    with name_missing_extra("the demo"):
        from sklearn.datasets import load_digits

    return torch.from_numpy(load_digits().data).float() / 16


def _training_step(
    objective: "Objective", model: "nn.Module", optimizer: "Optimizer"
) -> "Callable[[Tensor, Generator], None]":
    def step(x: "Tensor", generator: "Generator") -> None:
        optimizer.zero_grad()
        loss = objective(model, x, generator=generator).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _cells(row: Trained, rows: Sequence[Trained]) -> tuple[str, ...]:
    """Return the cells of a row of the table."""
    ssm = next(other.milliseconds for other in rows if other.name == "SSM")
    directions = str(row.directions or "none")
    ratio = f"{row.milliseconds / ssm:.2f}"
    return row.name, directions, f"{row.milliseconds:.1f}", ratio, str(row.loss)


def _verdict(rows: Sequence[Trained]) -> str:
    """Return what the times say about finite differences and Taylor mode."""
    times = {row.name: row.milliseconds for row in rows}
    faster = [
        f"{name} is {times['SSM'] / times[name]:.1f} times as fast as SSM"
        for name in ("FD-SSM", "Taylor-SSM")
    ]
    return (
        f"With the same {DIRECTIONS} directions, {' and '.join(faster)}. DSM takes no directions, "
        "but learns densities of noisy data only; SSM needs no noise."
    )


def _rich_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table

    table = Table(*header, box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _find_tumors(out: Path) -> tuple[Path, Path]:
    """Train on benign rows and score all others, as a user would.

    Args:
        out: Folder of the tables, the model and the scores.

    Returns:
        The folder of the model, and the file of scores.
    """
    benign, new, model = out / "benign.csv", out / "new.csv", out / "benign"
    if not new.exists():
        write_tables(out)
    if not model.exists():
        log(f"$ fdsm train {shlex.quote(str(benign))} --out {shlex.quote(str(model))}")
        train(benign, out=model)
    log(f"$ fdsm score {shlex.quote(str(model))} {shlex.quote(str(new))}")
    score(model, new)
    return model, out / "new.scores.csv"


def write_tables(folder: Path) -> None:
    """Write half of the benign rows to `benign.csv`, all others with the diagnosis to `new.csv`.

    Args:
        folder: The folder.

    Raises:
        ImportError: If scikit-learn is not installed.
    """
    from ..atomic_io import replace_file
    from ..extras import name_missing_extra

    with name_missing_extra("the demo"):
        from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names, kinds = data.feature_names.tolist(), data.target_names[data.target].tolist()
    rows = [[*row, kind] for row, kind in zip(data.data.tolist(), kinds, strict=True)]
    benign = [row for row in rows if row[-1] == "benign"][::2]
    training_rows = {id(row) for row in benign}
    new = [row for row in rows if id(row) not in training_rows]
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "benign.csv": [names, *(row[:-1] for row in benign)],
        "new.csv": [[*names, DIAGNOSIS], *new],
    }
    for name, lines in tables.items():
        with replace_file(folder / name) as draft, draft.open("w", newline="") as file:
            csv.writer(file).writerows(lines)


def _summarize_scores(path: Path) -> "Section":
    """Return how well the scores find malignant rows, and the top rows with their reasons."""
    import torch

    from ..evaluation import auc
    from ..tables.report import Section

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = {
        kind: torch.tensor([float(row["score"]) for row in rows if row[DIAGNOSIS] == kind])
        for kind in ("benign", "malignant")
    }
    flagged = {
        kind: sum(row["flagged"] == "true" for row in rows if row[DIAGNOSIS] == kind)
        for kind in scores
    }
    area = auc(scores["benign"], scores["malignant"]).value
    order = sorted(range(len(rows)), key=lambda i: -float(rows[i]["score"]))[:SHOWN_ROWS]
    return Section(
        "Tumors in a table",
        "The model learned half of the benign rows of a table of tumors and scored all others. Of "
        f"{len(scores['malignant'])} malignant rows {flagged['malignant']} are flagged, of "
        f"{len(scores['benign'])} benign ones {flagged['benign']}. The model has seen no "
        f"malignant row. AUC of the score: {area:.3f}.",
        ("row", DIAGNOSIS, "score", "reasons"),
        [
            (
                str(i + 1),
                rows[i][DIAGNOSIS],
                f"{float(rows[i]['score']):.1f}",
                rows[i]["reasons"],
            )
            for i in order
        ],
        f"The {SHOWN_ROWS} most unusual of {len(rows)} rows.",
    )
