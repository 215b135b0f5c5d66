from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.mixed_tables.detectors import DETECTORS, Encoded, LargestDeviation, OneHot
from benchmarks.outliers.methods import neighbors

FRAME = pa.table({
    "id": [f"R{i}" for i in range(40)],
    "size": [1.0, 3.0] * 20,
    "day": [date(2020, 1, 1), date(2020, 1, 3)] * 20,
    "color": ["red"] * 36 + ["blue"] * 4,
})
NEW = pa.table({
    "id": ["R1", "R2", "R3", "R4"],
    "size": [2.0, 6.0, None, 3.0],
    "day": [date(2020, 1, 2), date(2020, 1, 2), date(2120, 1, 2), None],
    "color": ["red", "red", "red", "green"],
})


def test_numbers_stay_dates_are_days_and_categories_are_indicators() -> None:
    encoding = OneHot().fit(FRAME)
    assert [name for name, _ in encoding.columns] == ["size", "day", "color", "color"]
    day = (date(2020, 1, 2) - date(1970, 1, 1)).days
    century = (date(2120, 1, 2) - date(2020, 1, 2)).days
    expected = [[2, 0, 0, 1], [6, 0, 0, 1], [np.nan, century, 0, 1], [3, np.nan, 0, 0]]
    np.testing.assert_array_equal(encoding.transform(NEW) - [0, day, 0, 0], expected)


def test_the_largest_deviation_is_the_score_and_the_reason() -> None:
    """Size has mean 2 and deviation 1; blue a share of 0.1 and thus a deviation of 0.3."""
    detector = LargestDeviation().fit(FRAME)
    scores = detector.outlier_scores(NEW)
    assert scores[[0, 1, 3]] == pytest.approx([0.1 / 0.3, 4, 0.9 / 0.3])
    assert [reasons[0].column for reasons in detector.explain(NEW)][1:] == ["size", "day", "color"]


def test_a_detector_of_numbers_sees_the_encoded_frame() -> None:
    detector = Encoded(neighbors(1)(0)).fit(FRAME)
    scores = detector.outlier_scores(NEW)
    assert scores[1] == pytest.approx(np.hypot(3, 1))  # size 6 is three from 3; the day is one off
    assert scores.argmax() == 2


def test_every_baseline_finds_the_wrong_century() -> None:
    for name, build in DETECTORS.items():
        if name not in {"fdsm", "iForest"}:
            detector = build(0)
            detector.fit(FRAME)
            assert detector.outlier_scores(NEW).argmax() == 2, name
