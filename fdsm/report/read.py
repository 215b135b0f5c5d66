"""Folders read from disk and put in order: runs, groups of seeds, experiments; and studies.

A run is a folder with a `config.json`. Runs that differ only by seed form a group, and groups
of one family of recipes on the same data at the same scale form an experiment: only within one
are numbers compared. A study is a folder with a `study.json`. Damage never stops the page:
whatever cannot be read is left out and said in a note that names the file. Only a path that does
not exist, or holds neither, is an error.

A folder named after a target of a reproduction, such as `table1`, says what the runs below are
for; they are then ordered as in the paper.
"""

import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..paper.published import published
from ..serialize import Json
from .json_values import Measured, differing, flat, measured, real, text
from .labels import TARGETS, rank
from .model import Collection, Curve, Experiment, Group, Run
from .studies import UNREADABLE, Study, read_study

APART = ("recipe", "scale", "device", "shape", "data", "settings")
"""What two runs of a group have in common, besides what follows from it."""

T = TypeVar("T")
K = TypeVar("K")


def collect(folders: Sequence[Path]) -> Collection:
    """Read the runs and studies in the given folders and below, and put them in order.

    The order of the folders is kept, and so decides which group is the baseline; within a
    folder it is that of the paper where runs are for one of its tables, and otherwise
    alphabetical. If a seed was run twice, the last one started counts.

    Args:
        folders: Folders of runs or studies, or folders above them.

    Returns:
        What was found, with notes on all that could not be read.

    Raises:
        FileNotFoundError: If a folder does not exist, or there is nothing in any of them.
    """
    notes: list[str] = []
    runs: list[Run] = []
    studies: list[Study] = []
    seen: set[Path] = set()
    for folder in folders:
        new_runs, new_studies = [], []
        for path, name in _found(folder, seen):
            if (path / "config.json").exists():
                new_runs.append(_run(path, name, notes.append))
            if (path / "study.json").exists():
                new_studies.append(read_study(path, name, notes.append))
        read = [run for run in new_runs if run is not None]
        runs += sorted(read, key=lambda run: rank(run.target, run.row))
        studies += [study for study in new_studies if study is not None]
    if not seen:
        raise FileNotFoundError(
            f"no run in {', '.join(map(str, folders)) or 'no folder'}: "
            "a run is a folder with a config.json, as `fdsm train` leaves it"
        )
    groups = _seeds(runs, notes.append)
    experiments = [_experiment(key, same) for key, same in _by(groups, _of_experiment).items()]
    return Collection(tuple(experiments), tuple(notes), tuple(studies))


def _found(folder: Path, seen: set[Path]) -> list[tuple[Path, str]]:
    """Return the folders of runs and studies not seen before, with the names to show."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found = []
    for inner, below, files in os.walk(folder):
        below.sort()
        if "config.json" in files:
            below.clear()
        path = Path(inner)
        if {"config.json", "study.json"} & set(files) and path.resolve() not in seen:
            seen.add(path.resolve())
            name = Path(folder.resolve().name, path.relative_to(folder)).as_posix()
            found.append((path, text(name)))
    return found


def _target(folder: Path) -> str:
    """Return the target that a folder is for: the last part of its path that is one."""
    return next((part for part in reversed(folder.resolve().parts) if part in TARGETS), "")


def _run(folder: Path, name: str, note: Callable[[str], None]) -> Run | None:
    try:
        config = _read(folder / "config.json")
        settings = _settings(config)
    except UNREADABLE as error:
        note(f"{name}/config.json cannot be read, so this run is left out: {_why(error)}")
        return None
    notes: list[str] = []
    run = Run(name, config, _target(folder), settings, **_logged(folder, notes.append))
    run = replace(run, published=_published(run))
    for part in (_result, _samples, _field):
        try:
            run = replace(run, **part(folder))
        except UNREADABLE as error:
            notes.append(f"{part.__name__[1:]} cannot be read: {_why(error)}")
    for line in notes:
        note(f"{name}: {line}")
    return replace(run, notes=tuple(notes))


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    flat(value)  # what is nested too deeply is refused here, not in the middle of the page
    return value


def _why(error: Exception) -> str:
    return text(getattr(error, "strerror", None) or str(error))


def _settings(config: Mapping[str, Any]) -> dict[str, Json]:
    own = flat(config.get("settings") or {})
    names = ("scale", "device", "shape", "data", "parameters")
    rest = {name: config[name] for name in names if name in config}
    return {path: value for path, value in own.items() if path} | flat(rest, "config")


def _published(run: Run) -> dict[str, Measured]:
    return {
        metric: Measured(one.value, one.error, {"place": one.place})
        for metric, one in published(run.target, run.row).items()
    }


def _result(folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    if not path.exists():
        return {}
    result = _read(path)
    return {"result": result, "metrics": measured(result.get("metrics"))}


def _samples(folder: Path) -> dict[str, Any]:
    from PIL import Image

    path = folder / "samples.png"
    if not path.exists():
        return {}
    image = path.read_bytes()
    try:
        with Image.open(io.BytesIO(image), formats=["PNG"]) as opened:
            size = opened.size
            opened.verify()
    except Exception as error:
        raise ValueError(f"samples.png is not a whole image ({type(error).__name__})") from error
    return {"samples": image, "size": size}


def _field(folder: Path) -> dict[str, Any]:
    path = folder / "field.npz"
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name], dtype=float) for name in file.files}
    except Exception as error:
        raise ValueError(f"field.npz is not whole ({type(error).__name__})") from error
    n = len(arrays.get("axis", ()))
    for name in ("model", "true") if "true_score" in arrays else ("model",):
        shapes = [arrays[f"{name}_{what}"].shape for what in ("log_density", "score")]
        if shapes != [(n, n), (n, n, 2)]:
            raise ValueError(f"field.npz has arrays of shapes {shapes} on a grid of {n}")
    return {"field": arrays}


def _logged(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    records = _records(folder / "metrics.jsonl", note)
    trained = [record for record in records if "loss" in record]
    validated: dict[str, list[tuple[dict[str, Any], Json]]] = {}
    for record in records:
        values = record.get("validation")
        for name, value in values.items() if isinstance(values, dict) else ():
            validated.setdefault(text(name), []).append((record, value))
    return {
        "loss": _curve([(record, record["loss"]) for record in trained]),
        "step_times": tuple(
            value for record in trained if math.isfinite(value := real(record.get("milliseconds")))
        ),
        "validation": {name: _curve(points) for name, points in validated.items()},
    }


def _records(path: Path, note: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines; a torn last line is what a killed run leaves."""
    try:
        *lines, torn = path.read_bytes().split(b"\n") if path.exists() else [b""]
    except OSError as error:
        note(f"metrics.jsonl cannot be read: {_why(error)}")
        return []
    records = [_record(line) for line in lines]
    bad = [str(number) for number, record in enumerate(records, 1) if record is None]
    if bad:
        note(f"metrics.jsonl is damaged in line {', '.join(bad[:5])}{', …' * (len(bad) > 5)}")
    return [record for record in (*records, _record(torn)) if record is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(record, dict) and math.isfinite(real(record.get("iteration")))
    return record if known else None


def _curve(points: Sequence[tuple[dict[str, Any], Json]]) -> Curve:
    return Curve(
        tuple(real(record["iteration"]) for record, _ in points),
        tuple(real(record.get("seconds")) for record, _ in points),
        tuple(real(value) for _, value in points),
    )


def _by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    parts: dict[K, list[T]] = {}
    for item in items:
        parts.setdefault(key(item), []).append(item)
    return parts


def _identity(run: Run) -> str:
    own = {name: run.config.get(name) for name in APART}
    return run.target + json.dumps(own, sort_keys=True)


def _seeds(runs: Sequence[Run], note: Callable[[str], None]) -> list[list[Run]]:
    """Return the runs of each group, one per seed and in their order."""
    groups = []
    for same in _by(runs, _identity).values():
        latest = []
        for again in _by(same, lambda run: run.seed).values():
            *older, last = sorted(again, key=lambda run: (run.finished, run.said("started")))
            latest.append(last)
            for run in older:
                note(f"{run.folder} is left out: {last.folder} is a later run of the same seed")
        groups.append(sorted(latest, key=lambda run: (len(run.seed), run.seed)))
    return groups


def _of_experiment(runs: Sequence[Run]) -> tuple[str, str, str, str]:
    run = runs[0]
    return run.target, run.said("recipe").rpartition("/")[0], run.data, run.said("scale")


def _experiment(key: tuple[str, str, str, str], groups: Sequence[Sequence[Run]]) -> Experiment:
    labels: dict[int, str] = {}
    for name, same in _by(groups, lambda runs: runs[0].row).items():
        paths = differing([runs[0].settings for runs in same])[:2]
        for runs in same:
            parts = [f"{path}={text(runs[0].settings.get(path))}" for path in paths]
            labels[id(runs)] = _unlike(" ".join([name or "run", *parts]), labels.values())
    named = (Group(labels[id(runs)], tuple(runs)) for runs in groups)
    return Experiment(*key, tuple(named))


def _unlike(label: str, taken: Iterable[str]) -> str:
    """Return a label of a length to show that is not taken yet."""
    short = label if len(label) <= 48 else f"{label[:46]}…"
    names, number, own = set(taken), 2, short
    while own in names:
        own, number = f"{short} ({number})", number + 1
    return own
