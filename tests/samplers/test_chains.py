import pytest
import torch

from fdsm.samplers import DivergenceWarning
from fdsm.samplers.chains import (
    require_counts,
    require_fraction,
    require_positive,
    track,
    validate_start,
    warn_if_diverged,
)


def test_starting_points_are_detached_without_a_copy() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    start = validate_start(x)
    assert not start.requires_grad
    assert start.data_ptr() == x.data_ptr()


def test_progress_wraps_the_range() -> None:
    assert list(track(3, None)) == [0, 1, 2]
    assert list(track(3, lambda numbers: (10 * n for n in numbers))) == [0, 10, 20]


def test_only_rows_that_are_not_finite_are_counted() -> None:
    x = torch.tensor([[0.0, torch.inf], [torch.nan, torch.nan], [1.0, 2.0]])
    with pytest.warns(DivergenceWarning, match="2 of 3 chains diverged"):
        assert warn_if_diverged(x) is x
    assert torch.equal(warn_if_diverged(x[2:]), x[2:])


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match=r"n must be an integer of at least 2, but is 1\.5"):
        require_counts(2, n=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a must be a positive number, but is nan"):
        require_positive(a=float("nan"))
    with pytest.raises(ValueError, match=r"f must be at least 0 and less than 1, but is 1\.0"):
        require_fraction(f=1.0)
