"""`fdsm evaluate`: evaluate a trained model again, and the summary that `fdsm train` ends with."""

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .options import DeviceOption, Flag, RunFolder
from .printing import console, log, print_json, progress, show
from .processes import trained_model

if TYPE_CHECKING:
    from paper.data import Dataset, TableSchema
    from paper.runs import Run, SavedModel

FEW_ROWS = 30
"""With fewer test rows, results are printed with a warning."""
MAX_WARNINGS = 4
"""Largest number of warnings about a model that are printed."""
LEVEL = 0.05
"""Level at which the calibration of the p-values is shown."""
LATE_SHARE = 0.9
"""If the held-out loss is best after this share of the iterations, longer training may help."""


def evaluate(
    run: RunFolder, /, *, device: DeviceOption = None, trust: Flag = False, json: Flag = False
) -> None:
    """Evaluate a trained model again and draw new samples.

    Args:
        run: Folder of the run.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print the result as JSON.
    """
    with trained_model(run, trust=trust, device=device) as (saved, world):
        world.together(lambda: evaluate_and_print(saved, saved.run.recipe.data.load(), json=json))


def evaluate_and_print(saved: "SavedModel", data: "Dataset", *, json: bool) -> None:
    """Evaluate a trained model and print a summary: data, model, training and quality."""
    from paper.runs import evaluate

    cross_fits = saved.run.recipe.cross_fits
    if not cross_fits:
        log(f"Evaluating on {len(data.test):,} test rows")
    if not cross_fits and len(data.test) < FEW_ROWS:
        log(f"WARNING: with fewer than {FEW_ROWS} test rows the comparison is not reliable.")
    count = saved.run.recipe.plan.sample_count(saved.progress["iterations"])
    drawing = progress(f"Drawing {count:,} samples") if count else lambda steps: steps
    try:
        result = evaluate(saved, data, drawing)
    except (KeyboardInterrupt, OSError):
        log(f"fdsm: the model is saved. Evaluate it with: {_command(saved.run, 'evaluate')}")
        raise
    facts = _facts(saved, data)
    if json:
        print_json({"run": str(saved.run.folder), **saved.run.origin, **result, **facts})
        return
    _print_metrics(saved.run, result)
    show(f"\nSummary of {saved.run.folder}")
    for sentence in _summary(saved.run, result, facts):
        show(f"  {sentence}")
    _print_warnings(result["problems"])
    files = ["result.json", *([result["samples"]] if "samples" in result else [])]
    log(f"Wrote {', '.join(str(saved.run.folder / name) for name in files)}")
    log("Next:")
    for command in facts["next"]:
        log(f"  {command}")


def unreadable_cells(schema: "TableSchema") -> list[str]:
    """Return a sentence for each column with cells that could not be read."""
    from paper.data.tables import DateTime, Numeric

    kinds = {Numeric: "numbers", DateTime: "dates"}
    return [
        f"cells of {column.name} that are not {kinds[type(column)]} and count as missing: "
        f"{column.unreadable:,}"
        for column in schema.columns
        if isinstance(column, (Numeric, DateTime)) and column.unreadable
    ]


def _facts(saved: "SavedModel", data: "Dataset") -> dict[str, Any]:
    """Return the facts of the summary that are not in `result.json`."""
    from paper.recipes.recipe import HasLogDensity

    recipe, detector = saved.run.recipe, saved.detector
    facts: dict[str, Any] = {
        "rows": sum(map(len, (data.train, data.validation, data.test))),
        "unreadable_cells": [],
        "limit": _limit(saved),
        "best_iteration": _best_iteration(saved.run),
        "next": _next_commands(saved),
    }
    if data.schema is not None:
        keys = ("name", "type", "details", "missing")
        facts["types"] = data.schema.describe()
        facts["columns"] = [dict(zip(keys, c, strict=True)) for c in data.schema.summary()]
        facts["unreadable_cells"] = unreadable_cells(data.schema)
    if isinstance(recipe, HasLogDensity):
        log_z, error = saved.log_partition or (None, None)
        facts["normalized"] = recipe.is_normalized or saved.log_partition is not None
        facts["log_partition"], facts["log_partition_error"] = log_z, error
    if detector is not None:
        p_values = detector.calibration.held_out_p_values()
        facts["detector"] = _detector(saved)
        facts["calibration"] = {
            "held_out_rows": len(p_values),
            "level": LEVEL,
            "share_below_level": float((p_values < LEVEL).double().mean()),
        }
    return facts


def _limit(saved: "SavedModel") -> str:
    """Return what ended the training: `"iterations"` or `"early stopping"`."""
    last = saved.run.recipe.plan.iterations
    return "iterations" if saved.progress["iterations"] >= last else "early stopping"


def _best_iteration(run: "Run") -> int | None:
    """Return the iteration with the smallest held-out loss, if it was measured."""
    from paper.report.read import read_lines
    from paper.report.records import real

    measured = [r for r in read_lines(run.folder / "metrics.jsonl", log) if r.get("validation")]
    validations = [(r["validation"], r["iteration"]) for r in measured]
    losses = [(real(next(iter(v.values()))), i) for v, i in validations if isinstance(v, dict)]
    finite = [(loss, iteration) for loss, iteration in losses if math.isfinite(loss)]
    return int(min(finite)[1]) if finite else None


def _detector(saved: "SavedModel") -> str:
    """Return a sentence on what the outlier detector measures."""
    from ..tables.outliers.neighbors import NUM_NEIGHBORS
    from paper.recipes import CrossFittedEBM

    recipe = saved.run.recipe
    if not isinstance(recipe, CrossFittedEBM):
        return "the log-density"
    return (
        f"the log-density at noise levels {_join([f'{s:g}' for s in recipe.scored_levels])}, the "
        f"distances to the {NUM_NEIGHBORS} nearest training rows, and new values in columns whose "
        "values repeat"
    )


def _next_commands(saved: "SavedModel") -> list[str]:
    run, is_table = saved.run, len(saved.shape) == 1
    commands = [_command(run, "sample", "-n 1000" if is_table else "-n 64")]
    if saved.detector is not None:
        commands.insert(0, _command(run, "score", "new.csv" if is_table else "new-images"))
    return [*commands, f"fdsm report {shlex.quote(str(run.folder))}"]


def _command(run: "Run", name: str, rest: str = "") -> str:
    words = f"fdsm {name} {shlex.quote(str(run.folder))} {rest}".rstrip()
    return f"{words} --trust" if run.origin.get("file") else words


def _summary(run: "Run", result: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return sentences on the data, the model, the training and the quality of a run."""
    types = f", {facts['types']}" if "types" in facts else ""
    lines = ["; ".join([f"Data: {facts['rows']:,} rows{types}", *facts["unreadable_cells"]]) + "."]
    if "description" in run.origin:
        lines.append(f"Model: {run.origin['description']} ({run.origin['preset']}).")
    lines.append(f"Training: {_training(result, facts)}")
    lines += [
        f"Density: {_comparison(comparison)}." for comparison in result.get("comparisons", ())
    ]
    if "normalized" in facts:
        lines.append(f"Log-density: {_normalization(facts)}.")
    if "detector" in facts:
        lines.append(f"Outlier score: {facts['detector']}.")
        share, rows = (facts["calibration"][k] for k in ("share_below_level", "held_out_rows"))
        lines.append(
            f"Calibration: {100 * share:.1f} % of {rows:,} held-out rows have a p-value below "
            f"{LEVEL:g} ({100 * LEVEL:g} % is perfect)."
        )
    if "sample_auc" in result:
        auc, count = result["sample_auc"], result["num_samples"]
        lines.append(
            f"Samples: {count:,} drawn, not compared with the rows, which needs scikit-learn and "
            "20 rows."
            if auc is None
            else f"Samples: {count:,} drawn. A classifier separates them from rows with an AUC of "
            f"{auc:.2f} (0.5 or less means that it cannot)."
        )
    return lines


def _training(result: dict[str, Any], facts: dict[str, Any]) -> str:
    """Return how long the training was, which limit ended it, and whether longer may help."""
    iterations, best = result["iterations"], facts["best_iteration"]
    early = facts["limit"] == "early stopping"
    sentences = [
        f"{iterations:,} iterations in {result['seconds']:.0f} s.",
        "Early stopping ended it." if early else "All planned iterations were used.",
    ]
    if best is not None:
        sentences.append(f"The held-out loss was best at iteration {best:,}.")
    if not early:
        late = best is None or best > LATE_SHARE * iterations
        sentences.append(
            f"Longer training may help: --iterations {2 * iterations}."
            if late
            else "Longer training is unlikely to help."
        )
    return " ".join(sentences)


def _comparison(compared: dict[str, Any]) -> str:
    """Return how the model compares with reference densities."""
    from paper.report import metric_info

    verdicts: dict[str, list[str]] = {}
    for name, value in compared["references"].items():
        verdict = "better than" if compared["model"]["value"] < value["value"] else "similar to"
        verdict = "worse than" if name in compared["better"] else verdict
        verdicts.setdefault(verdict, []).append(f"a {name}")
    words = ", ".join(f"{verdict} {_join(names)}" for verdict, names in verdicts.items())
    return f"{words} on held-out rows ({metric_info(compared['metric']).title})"


def _normalization(facts: dict[str, Any]) -> str:
    if not facts["normalized"]:
        return "known up to a constant, so compare it within this run only"
    error = facts["log_partition_error"]
    return "normalized" + ("" if error is None else f", with an error of {error:.2g} nats")


def _join(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _print_metrics(run: "Run", result: dict[str, Any]) -> None:
    """Print the metrics of the model and of the references, and what they mean."""
    from rich.table import Table

    from ..measurement import Measurement
    from paper.report import metric_info

    compared = {
        comparison["metric"]: comparison["references"]
        for comparison in result.get("comparisons", ())
    }
    references = list(
        dict.fromkeys(name for by_reference in compared.values() for name in by_reference)
    )
    table = Table("metric", "model", *references, box=None, header_style="bold")
    for name, value in result["metrics"].items():
        others = [compared.get(name, {}).get(reference) for reference in references]
        numbers = [
            str(Measurement(**measured)) if measured else "" for measured in (value, *others)
        ]
        table.add_row(metric_info(name).heading, *numbers)
    if table.rows:
        console(stderr=False).print(table)
    rows = "held-out" if run.recipe.cross_fits else "test"
    for name in result["metrics"]:
        log(f"{metric_info(name).title}: {metric_info(name).explanation_for(rows)}")


def _print_warnings(problems: Sequence[str]) -> None:
    for problem in problems[:MAX_WARNINGS]:
        log(f"WARNING: {problem}")
    if len(problems) > MAX_WARNINGS:
        log(f"WARNING: {len(problems) - MAX_WARNINGS} more problems are in result.json.")
    if problems:
        log(
            "Consider this before you rely on the model. Another --model or --objective may be "
            "better."
        )


def warn_of_problems(run: "Run") -> None:
    """Repeat the warnings that were printed when a model was evaluated."""
    if (run.folder / "result.json").exists():
        problems = run.result.get("problems")
        for problem in problems[:MAX_WARNINGS] if isinstance(problems, list) else ():
            log(f"WARNING: {problem}")
