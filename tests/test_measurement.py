"""Numbers are printed with the digits that their error leaves."""

import math

import pytest

from fdsm.measurement import format_number


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.0, None, "0"),
        (0.0, 0.012, "0.000 ± 0.012"),
        (-0.001, 30.0, "0 ± 30"),
        (9.96, 0.0996, "9.96 ± 0.10"),
        (123456.0, 7.0, "123,456.0 ± 7.0"),
        (1.5e-7, None, "1.5e-7"),
        (1e-3, 2e-9, "0.0010000000 ± 0.0000000020"),
        (0.2, 3e8, "(0.0 ± 3.0)e8"),
        (5e-324, None, "0"),
        (1.7e308, 1e307, "(1.70 ± 0.10)e308"),
        (math.inf, 1.0, "inf"),
        (2.0, math.nan, "2"),
    ],
)
def test_number_has_two_digits_of_its_error(
    value: float, error: float | None, expected: str
) -> None:
    assert format_number(value, error) == expected
