"""Every metric has a title, a unit and a meaning."""

import pytest

from fdsm.measurement import Measurement
from paper.report.format import DASH, METRICS, format_bytes, format_ratio, metric_info


def test_every_known_metric_is_explained_in_one_line_with_its_direction() -> None:
    for metric in METRICS.values():
        assert metric.meaning
        assert "\n" not in metric.meaning
        assert metric.explanation.endswith(("Lower is better.", "Higher is better."))


def test_unknown_metric_is_shown_under_its_own_name() -> None:
    metric = metric_info("my_metric")
    assert (metric.heading, metric.explanation) == ("my metric", "")
    assert metric.format(Measurement(1.25, 0.5)) == "1.25 ± 0.50"


def test_ood_auc_of_other_data_has_the_meaning_of_the_ood_auc() -> None:
    assert metric_info("ood_auc_cifar10").heading == "OOD AUC, CIFAR-10"
    assert metric_info("ood_auc_my_images").heading == "OOD AUC, my images"
    assert metric_info("ood_auc_my_images").explanation == METRICS["ood_auc"].explanation


@pytest.mark.parametrize(
    ("value", "base"), [(0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), (1.0, -2.0)]
)
def test_ratio_of_numbers_that_are_not_positive_is_not_shown(value: float, base: float) -> None:
    assert format_ratio(value, base) == DASH
    assert format_ratio(3.0, 4.0) == "0.75"


def test_bytes_that_are_not_known_are_not_shown() -> None:
    assert format_bytes(Measurement(float("inf"))) == DASH
