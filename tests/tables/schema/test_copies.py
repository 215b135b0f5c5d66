"""Copies of rows, and rows that are equal by chance."""

import numpy as np
import pytest

from fdsm.tables.schema.copies import Floats, copies_sentence, without_copies


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("times", [2, 3, 7])
@pytest.mark.parametrize("n", [20, 300])
def test_every_row_occurs_several_times(
    columns: int, times: int, n: int, random: np.random.Generator
) -> None:
    rows = random.normal(size=(n, columns))
    different, copies, equal = without_copies(np.tile(rows, (times, 1)))
    assert equal == 0
    assert copies == (times - 1) * n
    assert np.array_equal(different, rows)


def test_some_equal_rows_are_kept_and_counted(random: np.random.Generator) -> None:
    """They may occur twice by nature. Then new rows do so too, and p-values need them."""
    rows = np.c_[random.normal(size=(1300, 1)), random.integers(0, 3, (1300, 2))]
    table = np.concatenate([rows[:20], rows])
    kept, copies, equal = without_copies(table)
    assert (copies, equal) == (0, 20)
    assert np.array_equal(kept, table)


def test_rows_of_a_process_that_repeats_are_kept(random: np.random.Generator) -> None:
    """Rows that are drawn from 400 objects of different frequency, as in tables of places."""
    objects, weights = random.normal(size=(400, 3)), random.exponential(size=400)
    chosen = random.choice(400, 500, p=weights / weights.sum())
    kept, copies, equal = without_copies(objects[chosen])
    assert copies == 0
    assert len(kept) == 500
    assert equal == 500 - len(np.unique(chosen))


def test_a_third_of_a_single_column_occurs_twice(random: np.random.Generator) -> None:
    """By chance, 200 values that occur once and 100 that occur twice have 17 that occur thrice."""
    rows = random.normal(size=(300, 1))
    assert without_copies(np.concatenate([rows, rows[:100]]))[1] == 100


def test_copies_with_missing_cells_are_copies(random: np.random.Generator) -> None:
    rows = random.normal(size=(20, 2))
    rows[:5, 1] = np.nan
    assert without_copies(np.concatenate([rows, rows[:3]])).equal == 3
    assert without_copies(np.concatenate([rows, rows])).left_out == 20


def ages_and_sexes(random: np.random.Generator) -> Floats:
    return np.c_[random.integers(0, 100, 150), random.integers(0, 2, 150)].astype(float)


BY_CHANCE = {
    "counts": lambda random: random.poisson(2.0, size=(500, 4)).astype(float),
    "counts in one column": lambda random: random.poisson(3.0, size=(500, 1)).astype(float),
    "integers": lambda random: random.integers(0, 100, (1000, 1)).astype(float),
    "many integers": lambda random: random.integers(0, 1000, (1000, 1)).astype(float),
    "ages and sexes": ages_and_sexes,
    "rounded": lambda random: random.normal(size=(500, 2)).round(1),
    "rounded, one column": lambda random: random.normal(size=(500, 1)).round(2),
    "prices": lambda random: random.lognormal(3, 1, size=(1000, 1)).round(),
    "Zipf": lambda random: random.zipf(1.5, size=(500, 1)).clip(max=10**6).astype(float),
    "a grid, three times": lambda random: np.tile(
        np.stack(np.meshgrid(range(5), range(6)), -1).reshape(-1, 2), (3, 1)
    ).astype(float),
}


@pytest.mark.parametrize("name", BY_CHANCE)
def test_rows_that_are_equal_by_chance_are_kept(name: str, random: np.random.Generator) -> None:
    for _ in range(50):
        rows = BY_CHANCE[name](random)
        assert len(np.unique(rows, axis=0)) < len(rows)
        assert without_copies(rows)[1:] == (0, 0)


def test_sentence_counts_the_copies() -> None:
    assert copies_sentence(1, 0) == "1 row is a copy of another row and was left out"
    assert copies_sentence(2000, 0).startswith("2,000 rows are copies of other rows")
    assert copies_sentence(0, 1).startswith("1 row equals another row.")
    assert copies_sentence(0, 0) == ""
