"""A line has as many values and errors as positions."""

import pytest

from paper.report.figure import Line


@pytest.mark.parametrize(("y", "error"), [((1.0,), ()), ((1.0, 2.0), (0.1,))])
def test_line_with_different_lengths_is_refused(
    y: tuple[float, ...], error: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match=rf"2 x, {len(y)} y and {len(error)} errors"):
        Line("a", (1.0, 2.0), y, error)
