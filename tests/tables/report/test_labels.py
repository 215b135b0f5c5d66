"""Labels of plots are different, precise and do not overlap."""

import itertools

import numpy as np
import pytest

from fdsm.tables.report.labels import (
    AXIS_LENGTH,
    distinct_labels,
    number_legend,
    tick_labels,
    ticks_that_fit,
)


def test_long_names_stay_different() -> None:
    quantities = ("mean radius", "mean area", "radius error", "worst concave points")
    names = [f"measurement of the {one} of the nuclei (arbitrary units)" for one in quantities]
    labels = distinct_labels([*names, "diagnosis"])
    assert labels == ["mean radius", "mean area", "radius error", "worst co… points", "diagnosis"]


def test_short_names_and_different_starts_or_ends_are_kept() -> None:
    names = ["a", "volatile acidity in vinegar", "fixed acidity in vinegar"]
    assert distinct_labels(names) == ["a", "volatile…vinegar", "fixed ac…vinegar"]


def test_names_that_differ_in_the_middle_of_a_word_get_numbers_and_a_legend() -> None:
    names = [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xyz"]
    labels = distinct_labels(["c", *names])
    assert [label[:3] for label in labels] == ["c", "2: ", "3: ", "4: "]
    assert max(map(len, labels)) <= 16
    legend = number_legend(["c", *names], labels)
    assert legend == "; ".join(f"{number}: {name}" for number, name in enumerate(names, 2))
    assert number_legend(["1: c"], ["1: c"]) == ""


def test_a_name_without_a_part_of_its_own_is_numbered() -> None:
    long = "temperature of the engine of the second car"
    labels = distinct_labels([long, long.replace("of the engine of", "of the small engine of")])
    assert len(set(labels)) == 2
    assert all(labels)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.0, 1.0),
        (-3e5, 3e5),
        (2997000.0, 3003000.0),
        (10001.0, 10003.0),
        (1e-7, 3e-7),
        (99999.5, 99999.7),
        (-1e12, 1e15),
        (1e9, 1e9 + 3),
    ],
)
def test_ticks_do_not_overlap_and_are_precise(low: float, high: float) -> None:
    places, labels, power = ticks_that_fit(low, high)
    assert 1 <= len(places) == len(labels) == len(set(labels))
    assert all(low <= place <= high for place in places)
    characters = [AXIS_LENGTH * (place - low) / (high - low) for place in places]
    for (a, b), (first, second) in zip(
        itertools.pairwise(characters), itertools.pairwise(labels), strict=True
    ):
        assert b - a > (len(first) + len(second)) / 2
    exponent = power.removeprefix("× 10").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    scale = 10.0 ** int(exponent or 0)
    values = [scale * float(label.replace(",", "").replace("−", "-")) for label in labels]
    np.testing.assert_allclose(values, places, rtol=1e-12, atol=1e-9 * (high - low))


def test_ticks_of_one_axis_have_the_same_decimals() -> None:
    assert tick_labels([0.0, 0.25, 0.5]) == (["0.00", "0.25", "0.50"], "")
    assert tick_labels([-1.0, 0.0, 1.0]) == (["−1", "0", "1"], "")
    assert tick_labels([3.5e6]) == (["3.5"], "× 10⁶")
    assert tick_labels([]) == ([], "")
