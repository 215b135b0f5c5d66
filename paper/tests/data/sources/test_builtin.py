"""Tests of built-in data sets by name."""

import pytest

from paper.data import (
    BUILTIN_NAMES,
    DataError,
    Digits,
    FashionMNIST,
    GaussianRing,
    SyntheticData,
    builtin_source,
)


def test_names_are_those_of_the_sources() -> None:
    assert len(BUILTIN_NAMES) == 11
    assert builtin_source("digits") == Digits()
    assert builtin_source("fashion-mnist") == FashionMNIST()
    assert builtin_source("gaussian-ring") == SyntheticData(GaussianRing(), n=50_000)


def test_synthetic_data_sets_can_be_loaded() -> None:
    for name in ("gaussian-ring", "gaussian-mixture"):
        data = builtin_source(name).load()
        assert data.record["rows"] == {"train": 50_000, "validation": 5_000, "test": 5_000}


@pytest.mark.parametrize(
    ("name", "close"),
    [("Digit", "digits"), ("fashion_mnist", "fashion-mnist"), ("MNIST", "mnist")],
)
def test_an_unknown_name_raises_with_the_closest_name(name: str, close: str) -> None:
    with pytest.raises(DataError, match=f"{name!r}. Did you mean {close!r}") as caught:
        builtin_source(name)
    assert all(known in str(caught.value) for known in BUILTIN_NAMES)


def test_a_name_unlike_all_others_raises_without_a_suggestion() -> None:
    with pytest.raises(DataError, match=r"There is no built-in data set 'xyz'\. Available: mnist"):
        builtin_source("xyz")
