"""Reproduce tables and figures of the paper. Only parts that are not finished are run."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fdsm.atomic_io import replace_file
from fdsm.samplers import Progress
from fdsm.serialize import Json, differences, to_json
from fdsm.training import NonFiniteLossError

from .catalogue import Target, UnknownTargetError, find_recipes
from .data import DataError
from .lock import BusyError, exclusive
from .recipes import Recipe
from .run_store import RunStore
from .runs import Run, RunError, environment_info, measure_step_costs
from .study import Study
from .targets import StudyTarget

STUDY_FILE = "study.json"
"""File name of the result of a study."""

Log = Callable[[str], None]
"""Shows a message to the user."""


@dataclass(frozen=True)
class ReproductionResult:
    """The parts of a target that are finished, and those that failed.

    Attributes:
        folders: Folders of the finished runs, in the order of the table, or of the study.
        missing: A message for each part that could not be run.
    """

    folders: tuple[Path, ...]
    missing: tuple[str, ...] = ()


def reproduce(
    target: Target,
    store: RunStore,
    *,
    rows: Iterable[str] | None = None,
    seeds: int | None = None,
    progress: Progress,
    log: Log,
) -> ReproductionResult:
    """Run the missing parts of a target.

    Rows whose data are not available, and seeds whose training diverges, are reported as missing.

    Args:
        target: A table or a study.
        store: The folder of the runs.
        rows: Names of the rows to run. All rows if `None`.
        seeds: Number of seeds of each row, counted from zero. `None` uses that of the target.
        progress: Wraps loops other than training to show their progress.
        log: Shows a message before each long task.

    Returns:
        The folders of finished parts, and a message for each missing part.

    Raises:
        UnknownTargetError: If the target has no such row.
        RunError: If an existing result was produced with different settings.
        TrainingInterrupted: After a signal during training. The next call continues the run.
    """
    if isinstance(target, StudyTarget):
        if rows is not None:
            raise UnknownTargetError(f"{target.name} is a study and has no rows")
        return _run_study(target, store, progress, log)
    recipes = find_recipes(target, store.scale, rows)
    return _run_rows(
        target.name, recipes, store, seeds or target.seeds[store.scale], progress, log
    )


def _run_rows(
    target: str,
    recipes: Mapping[str, Recipe],
    store: RunStore,
    seeds: int,
    progress: Progress,
    log: Log,
) -> ReproductionResult:
    """Run all rows with the first seed, then with the second, and so on."""
    runs: dict[str, list[Run]] = {row: [] for row in recipes}
    missing: list[str] = []
    without_data: set[str] = set()
    for seed in range(seeds):
        for row in [row for row in runs if row not in without_data]:
            try:
                runs[row].append(_run_row(target, row, store, seed, progress, log))
            except DataError as error:
                without_data.add(row)
                missing.append(f"{target}/{row}: {error}")
            except (NonFiniteLossError, BusyError) as error:
                missing.append(f"{target}/{row}, seed {seed}: {error}")
    finished = {row: many for row, many in runs.items() if many}
    for comparable in _comparable_rows(finished):
        _time_steps({f"{target}/{row}": finished[row] for row in comparable}, log)
    folders = [run.folder for many in finished.values() for run in many]
    return ReproductionResult(tuple(folders), tuple(missing))


def _run_row(
    target: str, row: str, store: RunStore, seed: int, progress: Progress, log: Log
) -> Run:
    """Train and evaluate a run if necessary, and update the provenance in its config."""
    unfinished = store.run(target, row, seed)
    if not (unfinished.folder / "result.json").exists():
        saved = unfinished.checkpoints.numbered()
        continuing = f", continuing at iteration {int(saved[0].stem):,}" if saved else ""
        log(f"{target}: {row}, seed {seed}{continuing}")
    run = store.evaluated(target, row, seed, progress)
    if run.config.get("provenance") != run.recipe.provenance:
        run.write("config.json", run.config | {"provenance": run.recipe.provenance})
    return run


def _comparable_rows(runs: Mapping[str, list[Run]]) -> list[list[str]]:
    """Return groups of rows whose step times can be compared: those on the same data set."""
    groups: dict[type, list[str]] = {}
    for row, (run, *_) in runs.items():
        groups.setdefault(type(run.recipe.data), []).append(row)
    return list(groups.values())


def _time_steps(rows: Mapping[str, list[Run]], log: Log) -> None:
    """Time the training steps of rows together, unless that has been done."""
    runs = [run for many in rows.values() for run in many]
    together = {tuple(run.result.get("timed_with", ())) for run in runs}
    if len(together) == 1 and rows.keys() <= set(*together):
        return
    log(f"timing the training steps of {', '.join(rows)}, interleaved")
    costs = measure_step_costs([many[0] for many in rows.values()])
    for many, cost in zip(rows.values(), costs, strict=True):
        for run in many:
            with exclusive(run.folder):
                run.write("result.json", run.result | cost.record() | {"timed_with": list(rows)})


def _run_study(
    target: StudyTarget, store: RunStore, progress: Progress, log: Log
) -> ReproductionResult:
    study, folder = target.study(store.scale), store.root / target.name
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        path = folder / STUDY_FILE
        texts = {"title": target.title, "provenance": study.provenance}
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            _require_same_settings(path, record, study, store)
            if record != record | texts:
                _write(path, record | texts)
            return ReproductionResult((folder,))
        log(target.name)
        start, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
        tracked = replace(store, recipe_digests={})
        try:
            result = study.run(tracked, 0, progress)
        except (DataError, NonFiniteLossError) as error:
            return ReproductionResult((), (f"{target.name}: {error}",))
        record = {
            "study": target.name,
            **texts,
            "scale": store.scale,
            "seed": 0,
            "settings": to_json(study),
            "recipes": tracked.recipe_digests,
            **environment_info(),
            "started": started,
            "seconds": time.perf_counter() - start,
            "findings": to_json(asdict(result)),
        }
        _write(path, record)
    return ReproductionResult((folder,))


def _write(path: Path, record: Mapping[str, Json]) -> None:
    with replace_file(path) as draft:
        draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _require_same_settings(
    path: Path, record: Mapping[str, Any], study: Study, store: RunStore
) -> None:
    """Raise `RunError` if a study was run with other settings, scale or models."""
    before = {"scale": record["scale"], "settings": record["settings"]}
    changes = differences(before, {"scale": store.scale, "settings": to_json(study)})
    changes += store.changed_rows(record["recipes"])
    if changes:
        raise RunError(f"{path} was produced with different settings ({'; '.join(changes)})")
