"""`fdsm train`: train a model of a table."""

import shlex
import signal
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from .options import Flag, IntOption, PathOption, UsageError, require_device
from .printing import console, log, print_json, print_problems, progress, show, show_wrapped

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
                stages=progress,
            )
        samples = model.sample_codes(
            count := sample_count(model.training.iterations),
            progress=progress(f"Drawing {count:,} samples"),
        )
        summary = _without_hints(model.summarize(table, samples), columns["numeric"])
        model.save(folder, summary)
    for warning in caught:
        log(f"WARNING: {warning.message}.")
    _print_result(folder, model, summary, table, iterations, json=json)


def _without_hints(summary: "Summary", numeric: Sequence[str]) -> "Summary":
    """Return a summary that does not take columns for codes that the user called numeric."""
    columns = tuple(
        replace(column, possible_codes=0) if column.name in numeric else column
        for column in summary.columns
    )
    return replace(summary, columns=columns)


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
    """Print what the table is, how many rows are unusual, and whether the model can be trusted."""
    from ..tables.report import sentences

    commands = [
        f"fdsm score {shlex.quote(str(folder))} new{Path(table.name).suffix}",
        f"fdsm sample {shlex.quote(str(folder))} -n 1000",
        f"fdsm report {shlex.quote(str(folder))}",
    ]
    if json:
        print_json({"model": str(folder), **_facts(model, summary), "next": commands})
        return
    sections = {
        f"Table: {sentences.table_sentence(summary)}": [
            *(
                f"{len(names):,} {kind}: {', '.join(names)}"
                for kind, names in sentences.columns_by_type(summary.columns).items()
            ),
            *(f"{sentence}." for sentence in _unreadable_cells(model.schema)),
            sentences.codes_sentence(summary.columns),
        ],
        "Relations that hold in the table" if summary.relations else "": summary.relations,
        f"Unusual rows: {sentences.unusual_sentence(summary)}": [_errors_sentence(model)],
        "Can the model be trusted?": [
            f"{name}: {text}" for name, text in sentences.trust(summary).items()
        ],
        "Technical details": [
            _training_sentence(model, iterations),
            _log_density_sentence(model),
        ],
    }
    show(f"Model of {table.name}, in {folder}")
    for title, lines in sections.items():
        if title:
            show_wrapped(title)
        for line in filter(None, lines):
            show_wrapped(line, indent="  ")
    print_problems(summary.problems)
    log("Next:")
    for command in commands:
        log(f"  {command}")


def _errors_sentence(model: "TableModel") -> str:
    count = int((~model.detector.calibration.kept).sum())
    rows = "1 training row has a cell" if count == 1 else f"{count:,} training rows have cells"
    return f"{rows} that must be errors. Scores are calibrated without them." if count else ""


def _facts(model: "TableModel", summary: "Summary") -> dict[str, Any]:
    """Return the result as JSON."""
    from ..serialize import to_json

    keys = ("name", "type", "details", "missing")
    held_out, level = sum(summary.p_values.counts), 1 / len(summary.p_values.counts)
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
            "held_out_rows": held_out,
            "level": level,
            "share_at_most_level": summary.p_values.counts[0] / held_out,
        },
        "unusual_rows": summary.unusual_rows,
        "unusual_columns": dict(summary.unusual_columns),
        "relations": list(summary.relations),
        "num_samples": summary.samples,
        "sample_auc": summary.sample_auc,
        "problems": list(summary.problems),
    }


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
    return f"training: {' '.join(sentences)}"


def _log_density_sentence(model: "TableModel") -> str:
    if model.log_partition is None:
        return "log_density: known up to a constant, so compare it within this model only."
    return f"log_density: normalized, with an error of {model.log_partition[1]:.2g} nats."
