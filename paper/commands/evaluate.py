"""`python -m paper evaluate`: evaluate a model again, and the summary after a training."""

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fdsm.cli.printing import console, log, print_json, progress
from fdsm.untrusted import printable

from .options import DeviceOption, Flag, RunFolder, open_run

if TYPE_CHECKING:
    from ..data import Dataset
    from ..runs import Run, SavedModel

FEW_ROWS = 30
"""With fewer test rows, results are printed with a warning."""
MAX_WARNINGS = 4
"""Largest number of warnings about a model that are printed."""
LATE_SHARE = 0.9
"""If the validation loss is best after this share of the iterations, longer training may help."""


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
    from ..runs import SavedModel

    saved = SavedModel.load(open_run(run, trust=trust, device=device))
    evaluate_and_print(saved, saved.run.recipe.data.load(), json=json)


def evaluate_and_print(saved: "SavedModel", data: "Dataset", *, json: bool) -> None:
    """Evaluate a trained model and print a summary: data, model, training and quality."""
    from ..runs import evaluate

    log(f"Evaluating on {len(data.test):,} test rows")
    if len(data.test) < FEW_ROWS:
        log(f"WARNING: with fewer than {FEW_ROWS} test rows the comparison is not reliable.")
    count = saved.run.recipe.plan.num_samples
    drawing = progress(f"Drawing {count:,} samples") if count else lambda steps: steps
    try:
        result = evaluate(saved, data, drawing)
    except (KeyboardInterrupt, OSError):
        log(f"paper: the model is saved. Evaluate it with: {_command(saved.run, 'evaluate')}")
        raise
    facts = _facts(saved, data)
    if json:
        print_json({"run": str(saved.run.folder), **saved.run.origin, **result, **facts})
        return
    _print_metrics(result)
    print(printable(f"Summary of {saved.run.folder}"))
    for sentence in _summary(result, facts):
        print(printable(f"  {sentence}"))
    _print_warnings(result["problems"])
    files = ["result.json", *([result["samples"]] if "samples" in result else [])]
    log(f"Wrote {', '.join(str(saved.run.folder / name) for name in files)}")
    log("Next:")
    for command in facts["next"]:
        log(f"  {command}")


def _facts(saved: "SavedModel", data: "Dataset") -> dict[str, Any]:
    """Return the facts of the summary that are not in `result.json`."""
    from ..recipes.recipe import HasLogDensity

    recipe = saved.run.recipe
    facts: dict[str, Any] = {
        "rows": sum(map(len, (data.train, data.validation, data.test))),
        "limit": _limit(saved),
        "best_iteration": _best_iteration(saved.run),
        "next": _next_commands(saved),
    }
    if isinstance(recipe, HasLogDensity):
        facts["normalized"] = recipe.is_normalized
    return facts


def _limit(saved: "SavedModel") -> str:
    """Return what ended the training: `"iterations"` or `"early stopping"`."""
    last = saved.run.recipe.plan.iterations
    return "iterations" if saved.progress["iterations"] >= last else "early stopping"


def _best_iteration(run: "Run") -> int | None:
    """Return the iteration with the smallest validation loss, if it was measured."""
    from ..report.read import read_lines
    from ..report.records import real

    measured = [r for r in read_lines(run.folder / "metrics.jsonl", log) if r.get("validation")]
    validations = [(r["validation"], r["iteration"]) for r in measured]
    losses = [(real(next(iter(v.values()))), i) for v, i in validations if isinstance(v, dict)]
    finite = [(loss, iteration) for loss, iteration in losses if math.isfinite(loss)]
    return int(min(finite)[1]) if finite else None


def _next_commands(saved: "SavedModel") -> list[str]:
    run = saved.run
    return [
        _command(run, "sample", "-n 64"),
        f"python -m paper report {shlex.quote(str(run.folder))}",
    ]


def _command(run: "Run", name: str, rest: str = "") -> str:
    words = f"python -m paper {name} {shlex.quote(str(run.folder))} {rest}".rstrip()
    return f"{words} --trust" if run.origin.get("file") else words


def _summary(result: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return sentences on the data, the model, the training and the quality of a run."""
    lines = [f"Data: {facts['rows']:,} rows.", f"Training: {_training(result, facts)}"]
    lines += [
        f"Density: {_comparison(comparison)}." for comparison in result.get("comparisons", ())
    ]
    if "normalized" in facts:
        constant = "normalized" if facts["normalized"] else "known up to a constant"
        lines.append(f"Log-density: {constant}.")
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
        sentences.append(f"The validation loss was best at iteration {best:,}.")
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
    from ..report import metric_info

    verdicts: dict[str, list[str]] = {}
    for name, value in compared["references"].items():
        verdict = "better than" if compared["model"]["value"] < value["value"] else "similar to"
        verdict = "worse than" if name in compared["better"] else verdict
        verdicts.setdefault(verdict, []).append(f"a {name}")
    words = ", ".join(f"{verdict} {' and '.join(names)}" for verdict, names in verdicts.items())
    return f"{words} on test rows ({metric_info(compared['metric']).title})"


def _print_metrics(result: dict[str, Any]) -> None:
    """Print the metrics of the model and of the references, and what they mean."""
    from rich.table import Table

    from fdsm.measurement import Measurement

    from ..report import metric_info

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
    for name in result["metrics"]:
        log(f"{metric_info(name).title}: {metric_info(name).explanation}")


def _print_warnings(problems: Sequence[str]) -> None:
    for problem in problems[:MAX_WARNINGS]:
        log(f"WARNING: {problem}")
    if len(problems) > MAX_WARNINGS:
        log(f"WARNING: {len(problems) - MAX_WARNINGS} more problems are in result.json.")
    if problems:
        log("Consider this before you rely on the model. Another --recipe may be better.")


def warn_of_problems(run: "Run") -> None:
    """Repeat the warnings that were printed when a model was evaluated."""
    if (run.folder / "result.json").exists():
        problems = run.result.get("problems")
        for problem in problems[:MAX_WARNINGS] if isinstance(problems, list) else ():
            log(f"WARNING: {problem}")
