"""Reading folders of runs and studies.

A run is a folder with a `config.json`, and a study is a folder with a `study.json`. Runs that
differ only in their seed form a group. Groups of the same target and scale on the same data form
an experiment, in which numbers are compared. A damaged file never stops the report: it is left
out, and a note names the file and the reason. Only a folder that does not exist, or that holds
neither runs nor studies, is an error.
"""

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fdsm.extras import name_missing_extra
from fdsm.serialize import Json
from fdsm.untrusted import InputError, parse_json, read_file, read_json, require_file

from .aggregate import Collection, Experiment, Group
from .figure import Line, Panel
from .records import (
    Comparison,
    Curve,
    RunRecord,
    StudyRecord,
    differing_paths,
    flatten,
    measurement_from_json,
    measurements_from_json,
    real,
    text,
)
from .target import RowInfo, TargetInfo

IDENTITY = ("origin", "device", "shape", "data", "recipe")
"""Entries of `config.json` that are equal for all runs of a group."""

LABEL_LENGTH = 48
"""Longest label of a group, in characters."""

MAX_IMAGE_BYTES = 2**24
"""Largest picture of samples, which becomes a part of the page: 16 MiB."""

MAX_GRID_BYTES = 2**26
"""Largest density grid, which has 500 × 500 points: 64 MiB."""

MAX_PLOTS = 50
"""Largest number of panels of a study, and of validation metrics of a run. More are left out."""

READ_ERRORS = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors that damaged files cause."""

T = TypeVar("T")
K = TypeVar("K")
Note = Callable[[str], None]


def read_folders(folders: Sequence[Path], targets: Sequence[TargetInfo] = ()) -> Collection:
    """Read the runs and studies in folders and their subfolders.

    Groups keep the order of the folders. Inside a folder, rows of a target have the order of its
    description, and other runs are ordered alphabetically. If a seed was run twice, the run that
    started last is kept.

    Args:
        folders: Folders of runs or studies, or folders that contain them.
        targets: Descriptions of tables and figures with published numbers.

    Returns:
        The runs and studies, with notes on everything that could not be read.

    Raises:
        FileNotFoundError: If a folder does not exist, or no folder holds a run or a study.
    """
    infos = {target.name: target for target in targets}
    order = {name: index for index, name in enumerate(infos)}
    notes: list[str] = []
    runs: list[RunRecord] = []
    studies: list[StudyRecord] = []
    seen: set[Path] = set()
    for folder in folders:
        folder_runs = []
        for path, name in _find(folder, seen):
            if (path / "config.json").exists():
                folder_runs.append(_read_run(path, name, notes.append))
            if (path / "study.json").exists():
                studies += _read_study(path, name, infos, notes.append)
        runs += sorted(
            (run for run in folder_runs if run is not None),
            key=lambda run: (order.get(run.target, len(order)), _row_order(run, infos)),
        )
    if not seen:
        raise FileNotFoundError(
            f"no run in {', '.join(map(str, folders)) or 'no folder'}: "
            "a run is a folder with a config.json, written by training"
        )
    groups = _group_by_seed(runs, notes.append)
    experiments = [
        _experiment(same, infos.get(same[0][0].target))
        for same in _by(groups, lambda runs: _comparable(runs[0])).values()
    ]
    sections: list[Experiment | StudyRecord] = [*experiments, *studies]
    sections.sort(key=lambda section: order.get(section.target, len(order)))
    return Collection(tuple(sections), tuple(notes))


def _find(folder: Path, seen: set[Path]) -> list[tuple[Path, str]]:
    """Return the folders of runs and studies not seen before, with the names to show."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    paths = []
    for inner, below, files in os.walk(folder):
        below.sort()
        if "config.json" in files:
            below.clear()
        path = Path(inner)
        if {"config.json", "study.json"} & set(files) and path.resolve() not in seen:
            seen.add(path.resolve())
            name = Path(folder.resolve().name, path.relative_to(folder)).as_posix()
            paths.append((path, text(name)))
    return paths


def _row_order(run: RunRecord, infos: Mapping[str, TargetInfo]) -> int:
    rows = list(infos[run.target].rows) if run.target in infos else []
    return rows.index(run.row) if run.row in rows else len(rows)


def _read_run(folder: Path, name: str, note: Note) -> RunRecord | None:
    try:
        run = RunRecord(name, _read_object(folder / "config.json"))
    except READ_ERRORS as error:
        note(f"{name}/config.json cannot be read, so this run is left out: {_reason(error)}")
        return None
    notes: list[str] = []
    run = replace(run, **_read_metrics(folder, notes.append))
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "result.json": lambda path: parse_result(_read_object(path)),
        "samples.png": _read_samples,
        "density_grid.npz": _read_density_grid,
    }
    for file, read in parts.items():
        if not (folder / file).exists():
            continue
        try:
            run = replace(run, **read(folder / file))
        except READ_ERRORS as error:
            notes.append(f"{file} cannot be read: {_reason(error)}")
    for line in notes:
        note(f"{name}: {line}")
    return replace(run, notes=tuple(notes))


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    flatten(value)  # raises an error here, not in the page, if the nesting is too deep
    return value


def _reason(error: Exception) -> str:
    return text(getattr(error, "strerror", None) or str(error))


def parse_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RunRecord` that come from the content of `result.json`."""
    compared = result.get("comparisons")
    return {
        "result": result,
        "metrics": measurements_from_json(result.get("metrics")),
        "comparisons": tuple(map(_comparison, compared if isinstance(compared, list) else ())),
    }


def _comparison(value: Mapping[str, Any]) -> Comparison:
    return Comparison(
        text(value["metric"]),
        measurement_from_json(value.get("model")),
        measurements_from_json(value.get("references")),
    )


def _read_samples(path: Path) -> dict[str, Any]:
    with name_missing_extra("reading images"):
        from PIL import Image

    image = read_file(path, most=MAX_IMAGE_BYTES)
    try:
        with Image.open(io.BytesIO(image), formats=["PNG"]) as opened:
            size = opened.size
            opened.verify()
    except Exception as error:
        raise ValueError(f"it is not a complete image ({type(error).__name__})") from error
    return {"samples": image, "samples_size": size}


def _read_density_grid(path: Path) -> dict[str, Any]:
    require_file(path)
    try:
        with zipfile.ZipFile(path) as file:
            if sum(member.file_size for member in file.infolist()) > MAX_GRID_BYTES:
                raise ValueError(f"it expands to more than {MAX_GRID_BYTES:,} bytes")
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name], dtype=float) for name in file.files}
    except Exception as error:
        raise ValueError(f"it is not a complete archive ({type(error).__name__})") from error
    n = len(arrays.get("axis", ()))
    for name in ("model", "true") if "true_score" in arrays else ("model",):
        shapes = [arrays[f"{name}_{array}"].shape for array in ("log_density", "score")]
        if shapes != [(n, n), (n, n, 2)]:
            raise ValueError(f"it has arrays of shapes {shapes} on a grid of {n} points")
    return {"density_grid": arrays}


def _read_metrics(folder: Path, note: Note) -> dict[str, Any]:
    records = read_lines(folder / "metrics.jsonl", note)
    losses = [record for record in records if "loss" in record]
    validation: dict[str, list[tuple[dict[str, Any], Json]]] = {}
    for record in records:
        values = record.get("validation")
        for name, value in values.items() if isinstance(values, dict) else ():
            validation.setdefault(text(name), []).append((record, value))
    times = [real(record.get("milliseconds")) for record in losses]
    return {
        "loss": _curve([(record, record["loss"]) for record in losses]),
        "step_times": tuple(filter(math.isfinite, times)),
        "validation": {name: _curve(validation[name]) for name in list(validation)[:MAX_PLOTS]},
    }


def read_lines(path: Path, note: Note) -> list[dict[str, Any]]:
    """Return the records of a JSON lines file. The last line of a killed run may be incomplete.

    Args:
        path: The file. It may not exist.
        note: Called with a sentence on damaged lines.

    Returns:
        The records with an iteration.
    """
    try:
        *lines, last = read_file(path).split(b"\n") if path.exists() else [b""]
    except InputError as error:
        note(f"metrics.jsonl cannot be read: {error}")
        return []
    records = [_parse_line(line) for line in lines]
    bad = [str(number) for number, record in enumerate(records, 1) if record is None]
    if bad:
        note(f"metrics.jsonl is damaged in line {', '.join(bad[:5])}{', …' * (len(bad) > 5)}")
    return [record for record in (*records, _parse_line(last)) if record is not None]


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        record = parse_json(line)
    except InputError:
        return None
    has_iteration = isinstance(record, dict) and math.isfinite(real(record.get("iteration")))
    return record if has_iteration else None


def _curve(points: Sequence[tuple[dict[str, Any], Json]]) -> Curve:
    return Curve(
        tuple(real(record["iteration"]) for record, _ in points),
        tuple(real(record.get("seconds")) for record, _ in points),
        tuple(real(value) for _, value in points),
    )


def _read_study(
    folder: Path, name: str, infos: Mapping[str, TargetInfo], note: Note
) -> list[StudyRecord]:
    """Return the study of a folder, or an empty list if it cannot be read."""
    try:
        record = _read_object(folder / "study.json")
        findings = record["findings"]
        numbers = measurements_from_json(findings.get("numbers"))
    except READ_ERRORS as error:
        note(f"{name}/study.json cannot be read, so this study is left out: {error!r}")
        return []
    panels = []
    listed = findings.get("panels")
    listed = listed if isinstance(listed, list) else []
    if len(listed) > MAX_PLOTS:
        note(f"{name}/study.json has {len(listed):,} panels. Only {MAX_PLOTS} are shown")
    for index, value in enumerate(listed[:MAX_PLOTS]):
        try:
            panels.append(_panel(value))
        except READ_ERRORS as error:
            note(f"{name}/study.json: panels[{index}] is left out: {error!r}")
    target = text(record.get("study") or folder.resolve().name)
    title = infos[target].title if target in infos else text(record.get("title") or target)
    scale = text(record.get("scale") or "")
    return [StudyRecord(name, record, target, _title(title, scale), numbers, tuple(panels))]


def _panel(value: Mapping[str, Any]) -> Panel:
    return Panel(
        text(value["title"]),
        text(value["x_label"]),
        text(value["y_label"]),
        tuple(_line(line) for line in value["lines"]),
        value.get("x_log") is True,
        value.get("y_log") is True,
    )


def _line(value: Mapping[str, Any]) -> Line:
    x, y, error = (tuple(map(_coordinate, value.get(key) or ())) for key in ("x", "y", "error"))
    return Line(text(value["name"]), x, y, error, value.get("reference") is True)


def _coordinate(value: Json) -> float:
    """Return a number that can be plotted, or NaN."""
    number = real(value)
    return number if abs(number) < 1e100 else math.nan


def _by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    parts: dict[K, list[T]] = {}
    for item in items:
        parts.setdefault(key(item), []).append(item)
    return parts


def _group_by_seed(runs: Sequence[RunRecord], note: Note) -> list[list[RunRecord]]:
    """Return the runs of each group, one per seed, ordered by seed."""
    groups = []
    for same in _by(runs, _identity).values():
        latest = []
        for repeated in _by(same, lambda run: run.seed).values():
            *older, last = sorted(repeated, key=lambda run: (run.finished, run.entry("started")))
            latest.append(last)
            for run in older:
                note(f"{run.folder} is left out: {last.folder} is a later run of the same seed")
        groups.append(sorted(latest, key=lambda run: (len(run.seed), run.seed)))
    return groups


def _identity(run: RunRecord) -> str:
    return json.dumps({name: run.record.get(name) for name in IDENTITY}, sort_keys=True)


def _comparable(run: RunRecord) -> tuple[str, str, str, str]:
    """Return a key that is equal for runs whose numbers can be compared."""
    if run.target:
        return run.target, run.origin("scale"), run.data, ""
    data = run.record.get("data")
    return "", run.origin("scale"), run.data, json.dumps(data, sort_keys=True)


def _experiment(groups: Sequence[Sequence[RunRecord]], info: TargetInfo | None) -> Experiment:
    labels: dict[int, str] = {}
    for name, same in _by(groups, lambda runs: runs[0].row).items():
        paths = differing_paths([runs[0].settings for runs in same])[:2]
        for runs in same:
            parts = [f"{path}={text(runs[0].settings.get(path))}" for path in paths]
            labels[id(runs)] = _unique(" ".join([name, *parts]), labels.values())
    first, rows = groups[0][0], {} if info is None else info.rows
    title = info.title if info else first.target
    scale = first.origin("scale")
    return Experiment(
        first.target,
        _title(title, first.data, scale) or "runs",
        first.data,
        scale,
        tuple(
            Group(labels[id(runs)], tuple(runs), rows.get(runs[0].row, RowInfo()))
            for runs in groups
        ),
    )


def _title(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _unique(label: str, taken: Iterable[str]) -> str:
    """Return a label of limited length that is not taken yet."""
    short = label if len(label) <= LABEL_LENGTH else f"{label[: LABEL_LENGTH - 2]}…"
    names, number, unique = set(taken), 2, short
    while unique in names:
        unique, number = f"{short} ({number})", number + 1
    return unique
