r"""Groups of seeds, and means over seeds with their standard errors.

The error of a mean over $n$ seeds is its standard error, $s / \sqrt n$ with $s$ the standard
deviation over seeds. Each measurement also has a standard error of its own, that of a mean over
test data. All seeds share the test data, so this error does not shrink with the number of seeds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from fdsm.measurement import Measurement
from fdsm.serialize import Json

from .records import Comparison, RunRecord, StudyRecord
from .target import RowInfo


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Attributes:
        label: A name that is unique in the experiment.
        runs: The runs, ordered by seed.
        info: Published numbers and baseline of the row.
        deviations: Standard deviations of a run, by metric, due to sources that are measured
            separately. They are part of the errors of means.
    """

    label: str
    runs: tuple[RunRecord, ...]
    info: RowInfo = RowInfo()
    deviations: Mapping[str, float] = field(default_factory=dict)

    @property
    def first(self) -> RunRecord:
        """The run with the smallest seed."""
        return self.runs[0]

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """The runs that have finished."""
        return tuple(run for run in self.runs if run.finished)

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs that enter means: the finished ones, or all if none has finished."""
        return self.finished or self.runs

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings by path."""
        return self.first.settings

    @property
    def measurement_settings(self) -> Mapping[str, Json]:
        """Settings of the final measurements by path, such as `{"nll.samples": 1000}`."""
        return {
            f"{name}.{path}": value
            for run in reversed(self.runs)
            for name, metric in run.metrics.items()
            for path, value in metric.settings.items()
        }

    def by_seed(self, metric: str) -> dict[str, Measurement]:
        """Return the measurement of each seed that has one."""
        measured = {run.seed: run.measurement(metric) for run in self.counted}
        return {
            seed: measurement for seed, measurement in measured.items() if measurement is not None
        }

    def mean(self, metric: str) -> tuple[Measurement, int]:
        """Return the mean over seeds of a metric.

        Args:
            metric: Name of the metric.

        Returns:
            The mean, which is NaN if there is no measurement, and the number of seeds. The mean
            of one seed is its measurement, with the error of that measurement.
        """
        measured = list(self.by_seed(metric).values())
        mean = mean_of_measurements(measured) or Measurement(math.nan)
        return self.with_deviation(mean, metric, len(measured)), len(measured)

    def with_deviation(self, mean: Measurement, metric: str, count: int) -> Measurement:
        """Return a mean whose error includes the deviation of the metric, if there is one.

        Args:
            mean: The mean.
            metric: Name of the metric.
            count: Number of seeds of the mean.
        """
        if metric not in self.deviations or not count:
            return mean
        return replace(
            mean, error=math.hypot(mean.error or 0.0, self.deviations[metric] / math.sqrt(count))
        )

    def test_set_error(self, metric: str) -> float:
        """Return the mean of the errors of the measurements, or NaN if they have none."""
        errors = [
            measurement.error
            for measurement in self.by_seed(metric).values()
            if measurement.error is not None
        ]
        return fmean(errors) if errors else math.nan

    def is_timed_with(self, other: "Group") -> bool:
        """Return whether the times of two groups can be compared.

        Times of rows of a target can be compared if their steps were timed interleaved. The times
        of other runs are those of training, and are always compared.
        """
        rows = {f"{group.first.target}/{group.first.row}" for group in (self, other)}
        runs = (*self.counted, *other.counted)
        return not self.first.target or all(rows <= run.timed_with for run in runs)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Comparisons with reference densities: means over seeds."""
        by_metric: dict[str, list[Comparison]] = {}
        for run in self.counted:
            for comparison in run.comparisons:
                by_metric.setdefault(comparison.metric, []).append(comparison)
        return tuple(_mean_comparison(seeds) for seeds in by_metric.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of all seeds, each with the seed if there are several."""
        return tuple(
            f"Seed {run.seed}: {problem}" if len(self.runs) > 1 else problem
            for run in self.runs
            for problem in run.problems
        )


@dataclass(frozen=True)
class Experiment:
    """Groups whose numbers can be compared.

    Attributes:
        target: Name of the published table or figure, or empty.
        title: Title in reports.
        data: Name of the data.
        scale: Scale of the reproduction, or empty.
        groups: The groups, in the order in which they were found.
    """

    target: str
    title: str
    data: str
    scale: str
    groups: tuple[Group, ...]

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)


@dataclass(frozen=True)
class Collection:
    """Everything that was read.

    Attributes:
        sections: Experiments and studies: first the targets in the order of their descriptions,
            then the rest in the order in which they were found.
        notes: Files that could not be read, and runs that were left out.
    """

    sections: tuple[Experiment | StudyRecord, ...]
    notes: tuple[str, ...] = ()

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All experiments."""
        return tuple(section for section in self.sections if isinstance(section, Experiment))

    @property
    def studies(self) -> tuple[StudyRecord, ...]:
        """All studies."""
        return tuple(section for section in self.sections if isinstance(section, StudyRecord))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of all experiments."""
        return tuple(group for experiment in self.experiments for group in experiment.groups)

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)

    @property
    def seconds(self) -> dict[str, float]:
        """Durations by target: of the training of all runs, or of the whole study."""
        total = {study.target: study.seconds for study in self.studies}
        for experiment in self.experiments:
            seconds = sum(run.seconds for run in experiment.runs if run.finished)
            total[experiment.target] = total.get(experiment.target, 0.0) + seconds
        return total


def deviation_name(data: str, metric: str) -> str:
    """Return the name, in a study, of the standard deviation of a run on some data."""
    return f"standard deviation of a run, {data}, {metric}"


def mean_of_numbers(values: Sequence[float]) -> Measurement:
    """Return a mean and its standard error.

    Args:
        values: At least one number.

    Returns:
        The mean. It has no error if there is one value, or if a value is not finite.

    Example:
        >>> mean_of_numbers([1.0, 3.0])
        Measurement(value=2.0, error=1.0, settings={})
    """
    has_error = len(values) > 1 and all(map(math.isfinite, values))
    error = stdev(values) / math.sqrt(len(values)) if has_error else None
    return Measurement(fmean(values), error)


def mean_of_measurements(measured: Sequence[Measurement]) -> Measurement | None:
    """Return the mean of the values with its standard error. A single one is unchanged."""
    if len(measured) < 2:
        return measured[0] if measured else None
    return mean_of_numbers([measurement.value for measurement in measured])


def _mean_comparison(seeds: Sequence[Comparison]) -> Comparison:
    names = dict.fromkeys(name for comparison in seeds for name in comparison.references)
    means = {
        name: mean_of_measurements([s.references[name] for s in seeds if name in s.references])
        for name in names
    }
    return Comparison(
        seeds[0].metric,
        mean_of_measurements([comparison.model for comparison in seeds]) or Measurement(math.nan),
        {name: mean for name, mean in means.items() if mean is not None},
    )
