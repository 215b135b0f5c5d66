"""Tables and figures of the paper, made row by row; what is there already is not made again."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ..atomic_io import BusyError, exclusive, replace_file
from ..data import DataError
from ..runs.run import Run, RunError
from ..runs.train import environment_info
from ..samplers import Progress
from ..serialize import Json, differences, to_json
from ..training import NonFiniteLossError
from .catalogue import Figure, Table, Target
from .run_store import RunStore
from .study import Study
from .support.step_cost import pace

STUDY = "study.json"
"""Where a study writes what it found."""

Say = Callable[[str], None]
"""Says something to whoever waits."""


@dataclass(frozen=True)
class Made:
    """What a reproduction left behind.

    Attributes:
        folders: The folders of runs or of a study, in the order of the table.
        missing: What could not be made, and why.
    """

    folders: tuple[Path, ...]
    missing: tuple[str, ...] = ()


def reproduce(
    target: Target, place: RunStore, seeds: int | None, progress: Progress, say: Say
) -> Made:
    """Make what is missing of a target.

    Args:
        target: A table or a figure.
        place: Where its runs are.
        seeds: How many runs of each row, with seeds from zero on; the target's own if not given.
        progress: Watches loops other than trainings.
        say: Is told what is about to be done.

    Returns:
        Where everything is.

    Raises:
        TrainingInterrupted: After a signal in a training, which has a checkpoint; call again to go on.
        RunError: If what is there was made with other settings.
    """
    if isinstance(target, Figure):
        return _studied(target, place, progress, say)
    return _rows(target, place, seeds or target.seeds[place.scale], progress, say)


def _rows(target: Table, place: RunStore, seeds: int, progress: Progress, say: Say) -> Made:
    """Make the rows; those without data here, or that diverge, are left out.

    A whole table of the first seed comes before the second.

    Returns:
        Where the runs are.
    """
    runs: dict[str, list[Run]] = {recipe: [] for recipe in target.recipes(place.scale)}
    missing: list[str] = []
    absent: set[str] = set()
    for seed in range(seeds):
        for recipe in [each for each in runs if each not in absent]:
            try:
                runs[recipe].append(_row(target.name, recipe, place, seed, progress, say))
            except DataError as error:
                absent.add(recipe)
                missing.append(f"{recipe}: {error}")
            except (NonFiniteLossError, BusyError) as error:
                missing.append(f"{recipe}, seed {seed}: {error}")
    made = {recipe: many for recipe, many in runs.items() if many}
    for same in _alike(made):
        _time({recipe: made[recipe] for recipe in same}, say)
    folders = [run.folder for many in made.values() for run in many]
    return Made(tuple(folders), tuple(missing))


def _row(
    target: str, recipe: str, place: RunStore, seed: int, progress: Progress, say: Say
) -> Run:
    """Train and evaluate a run as far as that has not been done, and keep its words up to date."""
    if not (place.run(target, recipe, seed).folder / "result.json").exists():
        say(f"{target}: {recipe}, seed {seed}")
    run = place.evaluated(target, recipe, seed, progress)
    if run.config.get("provenance") != run.recipe.provenance:
        run.write("config.json", run.config | {"provenance": run.recipe.provenance})
    return run


def _alike(recipes: dict[str, list[Run]]) -> list[list[str]]:
    """Return the recipes whose times can be compared: of one experiment and one kind of data."""
    groups: dict[tuple[str, str], list[str]] = {}
    for recipe, (run, *_) in recipes.items():
        key = (recipe.partition("/")[0], type(run.recipe.data).__name__)
        groups.setdefault(key, []).append(recipe)
    return list(groups.values())


def _time(rows: dict[str, list[Run]], say: Say) -> None:
    """Time the steps of rows in turn, unless that has been done for all of them together."""
    names, firsts = list(rows), [runs[0] for runs in rows.values()]
    if all(run.result.get("timed_with") == names for runs in rows.values() for run in runs):
        return
    say(f"timing the steps of {', '.join(names)} in turn")
    for runs, cost in zip(rows.values(), pace(firsts), strict=True):
        for run in runs:
            _note(run, {**cost.record(), "timed_with": names})


def _note(run: Run, more: dict[str, Json]) -> None:
    """Add something to a result."""
    with exclusive(run.folder):
        run.write("result.json", run.result | more)


def _studied(target: Figure, place: RunStore, progress: Progress, say: Say) -> Made:
    study, folder = target.study(place.scale), place.root / target.name
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        path = folder / STUDY
        if path.exists():
            _require_the_same(path, study, place)
            return Made((folder,))
        say(target.name)
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
        watched = replace(place, used={})
        try:
            findings = study.measure(watched, 0, progress)
        except (DataError, NonFiniteLossError) as error:
            return Made((), (f"{target.name}: {error}",))
        record = {
            "study": target.name,
            "title": study.title,
            "provenance": study.provenance,
            "scale": place.scale,
            "seed": 0,
            "settings": to_json(study),
            "recipes": watched.used,
            **environment_info(),
            "started": started,
            "seconds": time.perf_counter() - began,
            "findings": to_json(asdict(findings)),
        }
        with replace_file(path) as draft:
            draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return Made((folder,))


def _require_the_same(path: Path, study: Study, place: RunStore) -> None:
    """Refuse findings of other settings, of another scale, or on models of other recipes."""
    before = json.loads(path.read_text(encoding="utf-8"))
    there = {"scale": before["scale"], "settings": before["settings"]}
    changes = differences(there, {"scale": place.scale, "settings": to_json(study)})
    changes += place.outdated(before["recipes"])
    if changes:
        raise RunError(
            f"{path} was made otherwise than it would be now ({'; '.join(changes)}): move it "
            "away, or choose another folder with --out"
        )
