"""`fdsm train`: train a model of a table."""

import shlex
import signal
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from .options import Flag, IntOption, PathOption, UsageError, require_device
from .printing import console, log, print_json, print_problems, progress, show

if TYPE_CHECKING:
    from ..tables import TableModel
    from ..tables.frame import TableFile
    from ..tables.schema import TableSchema
    from ..tables.summary import Summary

Names = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME,...", help_behavior_hint="")]
Objective = Annotated[
    Literal["dsm", "ssm", "sm"], arg(metavar="{dsm,ssm,sm}", help_behavior_hint="")
]
Derivative = Annotated[
    Literal["taylor", "fd", "autodiff"] | None,
    arg(metavar="{taylor,fd,autodiff}", help_behavior_hint=""),
]

LEVEL = 0.05
"""Level at which the calibration of the p-values is shown."""
LATE_SHARE = 0.9
"""If the held-out loss is best after this share of the iterations, longer training may help."""


def train(
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    categorical: Names = (),
    numeric: Names = (),
    ignore: Names = (),
    iterations: IntOption = None,
    objective: Objective = "dsm",
    derivative: Derivative = None,
    seed: int = 0,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Train a model of a table: a density with outlier scores, reasons and samples.

    The table may have numbers, text, dates and missing cells. This takes seconds to minutes. `fdsm
    score`, `fdsm sample` and `fdsm report` use the folder that this command writes.

    Args:
        data: The table: .csv, .tsv, .txt, .data, .parquet, .feather, .arrow, or an array in a .npy
            or .npz file.
        out: Folder to write. Default: runs/NAME, named after the file.
        categorical: Columns to take as categorical, for example --categorical zip,code.
        numeric: Columns to take as numeric. Cells that are not numbers are missing.
        ignore: Columns that the model must not see.
        iterations: Largest number of training iterations. Training stops earlier if the held-out
            loss no longer improves. Default: chosen from the number of rows.
        objective: Training objective: denoising (dsm), sliced (ssm) or exact (sm) score matching.
            Default: dsm, which is the fastest and the best for tables.
        derivative: How ssm and sm differentiate the model. taylor is exact, fd works with any
            model. Default: taylor.
        seed: Random seed.
        device: Device, such as cpu, cuda or mps.
        json: Print the result as JSON.

    Raises:
        UsageError: If the options contradict each other.
    """
    from ..atomic_io import require_writable
    from ..tables import TableModel, choose_objective
    from ..tables.frame import read_table
    from ..tables.model import require_free, sample_count
    from ..training import ProgressBar

    if iterations is not None and iterations < 1:
        raise UsageError(f"--iterations must be at least 1, but is {iterations}")
    if objective == "dsm" and derivative is not None:
        raise UsageError("--derivative needs --objective ssm or sm: dsm differentiates once")
    folder = out or _free_folder(Path("runs") / data.stem)
    require_free(folder)
    require_writable(folder)
    require_device(device)
    names = {"categorical": categorical, "numeric": numeric, "ignore": ignore}
    columns = {name: _split(given) for name, given in names.items()}
    with _stopped_by_signals(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        table = read_table(data, as_text=columns["categorical"])
        log(f"Read {data}: {table.table.num_rows:,} rows. Training a model for {folder}")
        with ProgressBar(folder.name, console()) as bar:
            model = TableModel.fit(
                table,
                **columns,
                objective=choose_objective(objective, derivative),
                iterations=iterations,
                seed=seed,
                device=device,
                progress=bar,
            )
        samples = model.sample_codes(
            count := sample_count(model.training.iterations),
            progress=progress(f"Drawing {count:,} samples"),
        )
        summary = model.summarize(table, samples)
        model.save(folder, summary)
    for warning in caught:
        log(f"WARNING: {warning.message}.")
    _print_result(folder, model, summary, table, iterations, json=json)


def _free_folder(folder: Path) -> Path:
    """Return a folder that does not exist: the given one, or one with a number in its name."""
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def _split(names: Sequence[str]) -> list[str]:
    """Return the names of options such as `--ignore a,b --ignore c`."""
    return [name for given in names for name in given.split(",") if name]


@contextmanager
def _stopped_by_signals() -> Generator[None]:
    """Turn signals into `KeyboardInterrupt`, unless they are ignored, as SIGHUP is by `nohup`."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name, signal.SIGTERM) for name in ("SIGTERM", "SIGHUP")]
    before = {
        number: signal.signal(number, stop)
        for number in set(numbers)  # Windows has no SIGHUP
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "stopped. No model was written. Training cannot be continued; start it again."
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_result(
    folder: Path,
    model: "TableModel",
    summary: "Summary",
    table: "TableFile",
    iterations: int | None,
    *,
    json: bool,
) -> None:
    """Print what was learned: data, training, density, outlier scores and samples."""
    sentences = {
        "data": _data_sentence(model, summary),
        "training": _training_sentence(model, iterations),
        "density": _density_sentence(summary),
        "log_density": _log_density_sentence(model),
        "calibration": _calibration_sentence(model),
        "samples": _samples_sentence(summary),
    }
    commands = [
        f"fdsm score {shlex.quote(str(folder))} new{Path(table.name).suffix}",
        f"fdsm sample {shlex.quote(str(folder))} -n 1000",
        f"fdsm report {shlex.quote(str(folder))}",
    ]
    if json:
        print_json({"model": str(folder), **_facts(model, summary), "next": commands})
        return
    show(f"Model of {table.name}, in {folder}")
    for sentence in filter(None, sentences.values()):
        show(f"  {sentence}")
    print_problems(summary.problems)
    log("Next:")
    for command in commands:
        log(f"  {command}")


def _facts(model: "TableModel", summary: "Summary") -> dict[str, Any]:
    """Return the result as JSON."""
    from ..serialize import to_json

    keys = ("name", "type", "details", "missing")
    p_values = model.detector.calibration.held_out_p_values()
    log_z, error = model.log_partition or (None, None)
    return {
        "file": to_json(model.file),
        "training": to_json(model.training),
        "columns": [dict(zip(keys, column, strict=True)) for column in model.schema.summary()],
        "unreadable_cells": _unreadable_cells(model.schema),
        "comparison": to_json(summary.comparison),
        "normalized": model.is_normalized,
        "log_partition": log_z,
        "log_partition_error": error,
        "calibration": {
            "held_out_rows": len(p_values),
            "level": LEVEL,
            "share_below_level": float((p_values < LEVEL).double().mean()),
        },
        "num_samples": summary.samples,
        "sample_auc": summary.sample_auc,
        "problems": list(summary.problems),
    }


def _data_sentence(model: "TableModel", summary: "Summary") -> str:
    file = model.file
    parts = [f"{file.rows:,} rows, {model.schema.describe()}"]
    shares = [column.missing for column in summary.columns if column.used]
    if missing := 100 * sum(shares) / len(shares):
        parts.append(f"{missing:.2g} % of the cells missing")
    if file.sampled_rows is not None:
        parts.append(f"a random sample of {file.sampled_rows:,} rows is used")
    if file.dropped_rows:
        parts.append(f"{file.dropped_rows:,} rows without any value were left out")
    return f"Data: {'; '.join([*parts, *_unreadable_cells(model.schema)])}."


def _unreadable_cells(schema: "TableSchema") -> list[str]:
    """Return a sentence for each column with cells that could not be read."""
    return [
        f"cells of {column.name} that cannot be read and count as missing: {count:,}"
        for column in schema.columns
        if (count := getattr(column, "unreadable", 0))
    ]


def _training_sentence(model: "TableModel", iterations: int | None) -> str:
    """Return how long the training was, what ended it, and whether longer may help."""
    from ..tables.ensemble import default_iterations

    training, file = model.training, model.file
    rows = file.rows - file.dropped_rows - file.copies
    planned = default_iterations(rows) if iterations is None else iterations
    best = min(training.validation_losses, key=lambda pair: pair[1])[0]
    sentences = [
        f"{training.objective}, {training.iterations:,} iterations in {training.seconds:.0f} s.",
        f"The held-out loss was best at iteration {best:,}.",
    ]
    if training.iterations < planned:
        sentences.append("Early stopping ended it.")
    elif best > LATE_SHARE * planned:
        sentences.append(f"Longer training may help: --iterations {2 * planned}.")
    return f"Training: {' '.join(sentences)}"


def _density_sentence(summary: "Summary") -> str:
    """Return how the model compares with reference densities."""
    if summary.comparison is None:
        return ""
    compared = summary.comparison
    verdicts: dict[str, list[str]] = {}
    for reference in compared.references:
        verdict = "better than" if compared.loss.value < reference.loss.value else "similar to"
        verdict = "worse than" if reference.is_better else verdict
        verdicts.setdefault(verdict, []).append(f"a {reference.name}")
    words = ", ".join(f"{verdict} {' and '.join(names)}" for verdict, names in verdicts.items())
    return f"Density: {words} on held-out rows (exact score-matching loss)."


def _log_density_sentence(model: "TableModel") -> str:
    if model.log_partition is None:
        return "Log-density: known up to a constant, so compare it within this model only."
    return f"Log-density: normalized, with an error of {model.log_partition[1]:.2g} nats."


def _calibration_sentence(model: "TableModel") -> str:
    p_values = model.detector.calibration.held_out_p_values()
    share = 100 * float((p_values < LEVEL).double().mean())
    return (
        f"Outlier scores: {share:.1f} % of {len(p_values):,} held-out rows have a p-value below "
        f"{LEVEL:g} ({100 * LEVEL:g} % is perfect)."
    )


def _samples_sentence(summary: "Summary") -> str:
    if summary.sample_auc is None:
        return ""
    return (
        f"Samples: a classifier separates {summary.samples:,} samples from rows with an AUC of "
        f"{summary.sample_auc:.2f} (0.5 or less means that it cannot)."
    )
