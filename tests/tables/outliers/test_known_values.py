"""The surprise of new values, against counts by hand."""

import math

import pytest
import torch
from torch import Generator

from fdsm.tables.outliers import KnownValues
from fdsm.tables.outliers.known_values import new_category_surprise

NAN = torch.nan


def test_surprise_is_the_log_of_the_inverse_probability_of_a_new_value() -> None:
    """Ten values, two of which occur once: p = 2.5 / 11."""
    column = torch.tensor([1.0, 1, 1, 2, 2, 2, 3, 3, 4, 5])
    known = KnownValues.fit(column[:, None])
    found = known.surprise(torch.tensor([[1.0], [4.0], [4.5], [9.0], [-9.0]]))
    assert found[:, 0].tolist() == pytest.approx([0, 0] + [math.log(11 / 5)] * 3)


def test_each_column_has_its_own_values() -> None:
    column = torch.arange(20) % 4
    known = KnownValues.fit(torch.stack([column, 10 * column], 1).float())
    one = math.log(21)  # no value occurs once: p = 0.5 / 21
    x = torch.tensor([[1.0, 10.0], [1.0, 11.0], [1.5, 10.0], [1.5, 11.0]])
    found = known.surprise(x)
    assert found.tolist() == [
        pytest.approx(row) for row in ([0, 0], [0, one], [one, 0], [one, one])
    ]


def test_a_value_of_another_column_is_new() -> None:
    column = torch.arange(20) % 2
    known = KnownValues.fit(torch.stack([column, 100 + column], 1).float())
    found = known.surprise(torch.tensor([[100.0, 100.0], [1.0, 1.0]]))
    assert (found > 0).tolist() == [[True, False], [False, True]]


def test_values_that_occur_once_are_new_to_training_rows() -> None:
    column = torch.tensor([1.0, 1, 1, 2, 2, 2, 3, 3, 4, 5])
    known = KnownValues.fit(column[:, None])
    found = known.surprise(column[:, None], torch.ones(10, dtype=torch.bool))
    assert found[:, 0].tolist() == pytest.approx([0] * 8 + [math.log(11 / 5)] * 2)


def test_a_column_of_measurements_does_not_count(generator: Generator) -> None:
    rows = torch.randn(50, 2, generator=generator)
    known = KnownValues.fit(rows)
    assert known.columns.tolist() == []
    assert known.surprise(rows + 1).count_nonzero() == 0


def test_a_new_value_that_is_as_likely_as_not_is_no_surprise() -> None:
    """Three of six values occur once, p = 3.5 / 7; with one copy more it is 2.5 / 8."""
    half = torch.tensor([1.0, 1, 1, 2, 3, 4])
    assert KnownValues.fit(half[:, None]).columns.tolist() == []
    fewer = KnownValues.fit(torch.cat([half, half[3:4]])[:, None])
    assert fewer.surprises.tolist() == pytest.approx([math.log(8 / 5)])


def test_missing_cells_are_not_values() -> None:
    column = torch.tensor([1.0, 1, NAN, 2, 2, NAN])
    known = KnownValues.fit(column[:, None])
    assert known.values.tolist() == [1.0, 2.0]
    assert known.surprises.tolist() == pytest.approx([math.log(5)])  # p = 0.5 / 5


def test_a_column_without_values_does_not_count() -> None:
    known = KnownValues.fit(torch.tensor([[NAN, 1.0], [NAN, 1.0], [NAN, 2.0]]))
    assert known.columns.tolist() == [1]


def test_missing_cells_of_new_rows_are_no_surprise() -> None:
    column = torch.tensor([1.0, 1, 1, 2, 2, 3])
    known = KnownValues.fit(column[:, None])
    copies = torch.tensor([True, False])
    assert known.surprise(torch.tensor([[NAN], [NAN]]), copies).tolist() == [[0.0], [0.0]]


# New categories


def test_surprise_of_a_new_category_is_that_of_good() -> None:
    """Of ten rows, two have a category that occurs once: p = 2.5 / 11. Numbers have none."""
    codes = torch.tensor([0.0, 0, 0, 1, 1, 1, 2, 2, 3, 4])
    cells = torch.stack([codes, codes, torch.arange(10) % 2], 1)
    surprise, once = new_category_surprise(cells, (5, 0, 2))
    assert surprise.tolist() == pytest.approx([math.log10(11 / 2.5), 0.0, math.log10(11 / 0.5)])
    assert once.nonzero().tolist() == [[8, 0], [9, 0]]


def test_a_missing_category_is_none_that_occurs_once() -> None:
    cells = torch.tensor([[0.0], [0.0], [1.0], [NAN]])
    surprise, once = new_category_surprise(cells, (2,))
    assert surprise.tolist() == pytest.approx([math.log10(5 / 1.5)])
    assert once[:, 0].tolist() == [False, False, True, False]


def test_new_categories_are_as_frequent_as_predicted(generator: Generator) -> None:
    """Categories with frequencies like 1/k. Of rows after the first 500, those with new ones."""
    frequencies = 1 / torch.arange(1, 2001).double()
    surprise, share = [], []
    for _ in range(20):
        codes = frequencies.multinomial(3000, replacement=True, generator=generator)
        levels, training = torch.unique(codes[:500], return_inverse=True)
        surprise.append(new_category_surprise(training[:, None].double(), (len(levels),))[0])
        share.append((~torch.isin(codes[500:], levels)).double().mean())
    predicted = (10 ** -torch.cat(surprise)).mean().item()
    assert predicted == pytest.approx(torch.stack(share).mean().item(), rel=0.05)
