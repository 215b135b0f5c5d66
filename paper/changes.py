"""Lists the numbers that differ between two folders of results: `python -m paper.changes OLD NEW`.

A number is listed if it changed by more than its error, that is, by more than the two standard
errors added in quadrature. If only random numbers changed, a third of the numbers is listed.
Numbers without an error are listed if they changed by more than a tenth. Times of steps are
compared as ratios to the baseline of the row, and other times are not compared.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fdsm.measurement import Measurement

from .catalogue import target_infos
from .report import (
    MEMORY,
    STEP_TIME,
    Collection,
    Group,
    StudyRecord,
    escape,
    metric_info,
    read_folders,
    typeset,
)

TIMES = ("seconds", "milliseconds")
"""First words of the names of times. They depend on the machine and are not compared."""


@dataclass(frozen=True)
class Change:
    """A number before and now.

    Attributes:
        target: Name of the table or study.
        name: Row and metric of a table, or name of the number of a study.
        before: The number in the old results.
        now: The number in the new results.
        reason: What differs between the two.
    """

    target: str
    name: str
    before: Measurement
    now: Measurement
    reason: str

    @property
    def errors(self) -> float:
        """The difference in units of its standard error. NaN if there is no error."""
        error = math.hypot(self.before.error or 0.0, self.now.error or 0.0)
        return abs(self.now.value - self.before.value) / error if error else math.nan

    @property
    def is_listed(self) -> bool:
        """Whether the number changed by more than its error, or without errors by a tenth."""
        if not math.isnan(self.errors):
            return self.errors > 1
        if math.isnan(self.before.value) or math.isnan(self.now.value):
            return math.isnan(self.before.value) != math.isnan(self.now.value)
        return abs(self.now.value - self.before.value) > 0.1 * abs(self.before.value)


def compare(before: Collection, now: Collection) -> list[Change]:
    """Return all numbers that both collections have, in the order of the new one."""
    old_groups = {(group.first.target, group.first.row): group for group in before.groups}
    old_studies = {study.target: study for study in before.studies}
    changes: list[Change] = []
    new_groups = {(group.first.target, group.first.row): group for group in now.groups}
    for section in now.sections:
        if isinstance(section, StudyRecord):
            if section.target in old_studies:
                changes += _of_study(old_studies[section.target], section)
            continue
        for group in section.groups:
            key = (group.first.target, group.first.row)
            if key in old_groups:
                changes += _of_group(old_groups[key], group)
                base = (group.first.target, group.info.baseline)
                if base in old_groups and base in new_groups:
                    changes += _of_ratios(
                        old_groups[key], old_groups[base], group, new_groups[base]
                    )
    return changes


def _of_group(before: Group, now: Group) -> Iterator[Change]:
    old_metrics = {metric for run in before.runs for metric in run.metrics}
    for metric in dict.fromkeys(metric for run in now.runs for metric in run.metrics):
        if metric in old_metrics:
            yield Change(
                now.first.target,
                f"{now.first.row}, {metric_info(metric).heading}",
                before.mean(metric)[0],
                now.mean(metric)[0],
                _reason_of_group(before, now, metric),
            )


def _of_ratios(before: Group, old_base: Group, now: Group, new_base: Group) -> Iterator[Change]:
    """Return the changes of time and memory of a step, relative to the baseline of the row."""
    pairs = ((before, old_base), (now, new_base))
    if before is old_base or not all(group.is_timed_with(base) for group, base in pairs):
        return
    for name, metric in (("time ratio", STEP_TIME), ("memory ratio", MEMORY)):
        old, new = (
            Measurement(group.mean(metric)[0].value / base.mean(metric)[0].value)
            for group, base in pairs
        )
        settings = _differing(before.settings, now.settings)
        reason = f"settings: {settings}" if settings else "the same settings"
        yield Change(now.first.target, f"{now.first.row}, {name}", old, new, reason)


def _of_study(before: StudyRecord, now: StudyRecord) -> Iterator[Change]:
    settings = _differing(before.settings, now.settings)
    for name in now.numbers:
        if name in before.numbers and not name.startswith(TIMES):
            yield Change(
                now.target,
                name,
                before.numbers[name],
                now.numbers[name],
                f"settings: {settings}" if settings else "the same settings",
            )


def _reason_of_group(before: Group, now: Group, metric: str) -> str:
    """Name the settings that differ, and count the seeds and the common seeds that changed."""
    old, new = before.by_seed(metric), now.by_seed(metric)
    common = [seed for seed in new if seed in old]
    changed = [seed for seed in common if new[seed].value != old[seed].value]
    settings = _differing(before.settings, now.settings)
    parts = [
        f"settings: {settings}" if settings else "",
        f"seeds: {len(old)}, now {len(new)}" if len(old) != len(new) else "",
        f"{len(changed)} of {len(common)} common seeds changed",
    ]
    return "; ".join(filter(None, parts))


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    paths = dict.fromkeys([*before, *now])
    return ", ".join(path for path in paths if before.get(path) != now.get(path))


def table(changes: Sequence[Change]) -> str:
    """Return the changes that are listed, as a table in Markdown, with counts of all."""
    listed = [change for change in changes if change.is_listed]
    lines = [
        f"{len(listed)} of {len(changes)} numbers changed by more than their error, or by "
        "more than a tenth if they have none.",
        "",
        "| target | number | before | now | difference / error | what differs |",
        "| :-- | :-- | --: | --: | --: | :-- |",
    ]
    for change in listed:
        errors = "–" if math.isnan(change.errors) else f"{change.errors:.1f}"
        cells = (
            change.target,
            change.name,
            typeset(str(change.before)),
            typeset(str(change.now)),
            errors,
            change.reason,
        )
        lines.append(f"| {' | '.join(map(escape, cells))} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(
        prog="python -m paper.changes",
        description="List the numbers that differ between two folders of results, in Markdown.",
    )
    parser.add_argument("before", type=Path, help="Folder of the old results.")
    parser.add_argument("now", type=Path, help="Folder of the new results.")
    given = parser.parse_args(arguments)
    infos = target_infos()
    print(
        table(compare(read_folders([given.before], infos), read_folders([given.now], infos))),
        end="",
    )


if __name__ == "__main__":
    main()
