"""Numbers as text: metrics with their units, sizes, durations and dates.

A metric is one record in `METRICS`. To describe another metric, add its record. A metric without
a record is shown under its own name.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from fdsm.measurement import Measurement

from .records import MEMORY, STEP_TIME, STEP_TIME_WITH_VALIDATION
from .target import PublishedValue

DASH = "–"
"""Text of a number that is not known."""

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Translates digits to superscripts."""


def format_bytes(measured: Measurement) -> str:
    """Format a number of bytes in megabytes or gigabytes.

    Args:
        measured: The number of bytes. Its error is not shown.

    Returns:
        The size as text.

    Example:
        >>> [format_bytes(Measurement(count)) for count in (2_450_000, 3.2e9, 1_234e9)]
        ['2.45 MB', '3.2 GB', '1,230 GB']
    """
    if not math.isfinite(measured.value):
        return DASH
    unit, name = (1e9, "GB") if abs(measured.value) >= 1e9 else (1e6, "MB")
    return f"{float(f'{measured.value / unit:.3g}'):,.10g} {name}"


def format_published(published: PublishedValue) -> str:
    """Format a published number with all digits that it was published with.

    Args:
        published: The number.

    Returns:
        The number as text.

    Example:
        >>> numbers = [(-193.97, None), (-2182, 269), (-2.97e7, None)]
        >>> [format_published(PublishedValue(*pair, "Table 1")) for pair in numbers]
        ['-193.97', '-2,182 ± 269', '-2.97e7']
    """
    error = "" if published.error is None else f" ± {published.error:,.10g}"
    value = f"{published.value:,.10g}"
    if abs(published.value) >= 1e6:
        mantissa, _, power = f"{published.value:.9e}".partition("e")
        value = f"{float(mantissa):.10g}e{int(power)}"
    return value + error


def format_ratio(value: float, base: float) -> str:
    """Format the ratio of two positive numbers, as a dash if one of them is not known."""
    are_positive = all(math.isfinite(number) and number > 0 for number in (value, base))
    return f"{value / base:.2f}" if are_positive else DASH


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    Args:
        seconds: The duration in seconds.

    Returns:
        The duration as text.

    Example:
        >>> format_duration(36.94), format_duration(754.0), format_duration(100_000.0)
        ('36.9 s', '12.6 min', '27.8 h')
    """
    if not math.isfinite(seconds):
        return DASH
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def format_time(time: str) -> str:
    """Format a time in UTC.

    Args:
        time: A time in the format of ISO 8601.

    Returns:
        The time as text. Text that is not a time is returned unchanged.

    Example:
        >>> format_time("2026-11-16T01:02:03+00:00")
        '16 November 2026, 01:02'
    """
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return time
    parsed = parsed.astimezone(UTC) if parsed.tzinfo else parsed
    return f"{parsed.day} {parsed:%B %Y, %H:%M}"


def typeset(cell: str) -> str:
    """Replace the minus signs and powers of ten of a formatted number by typographic ones.

    Args:
        cell: A number as the terminal shows it.

    Returns:
        The number as a page shows it.

    Example:
        >>> typeset("(-3.360 ± 0.021)e7")
        '(−3.360 ± 0.021) × 10⁷'
    """

    def power_of_ten(match: re.Match[str]) -> str:
        return f" × 10{match[1].translate(SUPERSCRIPT)}"

    return re.sub(r"(?<=[\d)])e(-?\d+)", power_of_ten, cell).replace("-", "−")


@dataclass(frozen=True)
class Metric:
    """Name and meaning of a metric.

    Attributes:
        name: Name in `result.json`.
        title: Title of its column.
        unit: Unit, or empty.
        meaning: Description in one line.
        better: Which values are better: `"lower"`, `"higher"`, or empty if neither.
        format: Formats a measurement.
        format_published: Formats a published number.
    """

    name: str
    title: str
    unit: str = ""
    meaning: str = ""
    better: Literal["", "lower", "higher"] = ""
    format: Callable[[Measurement], str] = str
    format_published: Callable[[PublishedValue], str] = format_published

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def explanation(self) -> str:
        """The meaning, and which values are better."""
        better = f"{self.better.capitalize()} is better." if self.better else ""
        return " ".join(filter(None, (self.meaning, better)))


OOD_AUC = Metric(
    "ood_auc",
    "OOD AUC",
    "",
    "Area under the ROC curve for detecting out-of-distribution rows. 0.5 is chance.",
    "higher",
)
_OOD_DATA = {
    "svhn": "SVHN", "cifar10": "CIFAR-10", "imagenet": "ImageNet", "mnist": "MNIST",
    "fashion": "Fashion-MNIST",
}  # fmt: skip
_FRECHET = "Fréchet distance between features of samples and of test images"

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("nll", "NLL", "nats", "Negative log-likelihood per test row.", "lower"),
        Metric("nll_near_data", "NLL, proposal near data", "nats",
               "NLL with log Z estimated from a proposal near the training rows.", "lower"),
        Metric("nll_both_ends", "NLL, both ends", "nats",
               "NLL with log Z estimated from samples of a proposal and of the model. The error "
               "includes half the difference to the estimate from the proposal alone.", "lower"),
        Metric("effective_sample_size", "effective samples", "",
               "Effective number of samples in the estimate of log Z.", "higher"),
        Metric("effective_sample_size_near_data", "effective samples, proposal near data", "",
               "Effective number of samples from the proposal near the training rows.", "higher"),
        Metric("exact_sm_loss", "exact SM loss", "",
               "Exact score-matching loss per test row, summed over dimensions. Comparable only "
               "for the same data and noise.", "lower"),
        Metric("exact_sm_loss_median", "median SM loss", "",
               "Median over test rows of the exact score-matching loss.", "lower"),
        Metric("sm_loss", "SM loss", "", "Sliced score-matching loss.", "lower"),
        OOD_AUC,
        *(replace(OOD_AUC, name=f"ood_auc_{name}", title=f"OOD AUC, {title}")
          for name, title in _OOD_DATA.items()),
        Metric("fid", "FID", "", f"{_FRECHET}, from the Inception network.", "lower"),
        Metric("frechet_classifier", "Fréchet distance, classifier features", "",
               f"{_FRECHET}, from a small classifier.", "lower"),
        Metric("frechet_random", "Fréchet distance, random features", "",
               f"{_FRECHET}, from random convolutions.", "lower"),
        Metric("denoising", "denoising loss", "",
               "Denoising score-matching loss of test rows.", "lower"),
        Metric("reconstruction", "reconstruction", "",
               "Reconstruction error per test row.", "lower"),
        Metric("fisher", "Fisher divergence", "",
               "Squared error of the score, relative to the true score. 0 is exact.", "lower"),
        Metric(STEP_TIME, "time per iteration", "ms", "Median time of a training step.", "lower"),
        Metric(STEP_TIME_WITH_VALIDATION, "time with validation", "ms",
               "Time of a training step with its share of the validations.", "lower"),
        Metric(MEMORY, "memory", "",
               "Largest amount of memory that a step saves for its backward pass.", "lower",
               format_bytes, lambda measured: format_bytes(Measurement(measured.value))),
    )
}  # fmt: skip
"""Known metrics by name."""


def metric_info(name: str) -> Metric:
    """Return the record of a metric, or a default one.

    Args:
        name: Name of the metric in `result.json`.

    Returns:
        The record. `ood_auc_NAME` is the OOD AUC for the data `NAME`.

    Example:
        >>> [metric_info(name).heading for name in ("nll", "ood_auc_fog", "sliced_wasserstein")]
        ['NLL (nats)', 'OOD AUC, fog', 'sliced wasserstein']
    """
    if name in METRICS:
        return METRICS[name]
    prefix = f"{OOD_AUC.name}_"
    if name.startswith(prefix):
        variant = name.removeprefix(prefix).replace("_", " ")
        return replace(OOD_AUC, name=name, title=f"{OOD_AUC.title}, {variant}")
    return Metric(name, name.replace("_", " "))
