"""Missing cells are filled with values of similar rows."""

import math

import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables import imputation
from fdsm.tables.encoder import EncodeColumns
from fdsm.tables.imputation import Imputation, fill_within_folds

NAN = torch.nan


def with_gaps(n: int, columns: int, share: float, seed: int) -> Tensor:
    generator = Generator().manual_seed(seed)
    x = torch.randn(n, columns, generator=generator)
    x[torch.rand(n, columns, generator=generator) < share] = NAN
    return x


def donors_by_loops(row: list[float], rows: list[list[float]], column: int) -> list[float]:
    """Values of a column in the rows that have it, from the nearest row to the farthest."""
    found = []
    for other in rows:
        if math.isnan(other[column]):
            continue
        common = [
            abs(a - b)
            for a, b in zip(row, other, strict=True)
            if not (math.isnan(a) or math.isnan(b))
        ]
        distance = sum(common) / len(common) if common else math.inf
        found.append((distance, other[column]))
    return [value for _, value in sorted(found)]


def test_donors_are_the_nearest_rows_by_the_mean_distance_over_common_cells() -> None:
    rows, x = with_gaps(60, 4, 0.3, 0), with_gaps(20, 4, 0.4, 1)
    x = x[~x.isnan().all(1)]
    found = Imputation.fit(rows).completions(x)
    assert found.shape == (5, *x.shape)
    for i, row in enumerate(x.tolist()):
        for j, value in enumerate(row):
            if math.isnan(value):
                expected = donors_by_loops(row, rows.tolist(), j)[:5]
                assert found[:, i, j].tolist() == expected
            else:
                assert found[:, i, j].tolist() == [value] * 5


def test_distance_is_the_mean_and_not_the_sum() -> None:
    """The second row has one more cell in common, each at the distance 1 instead of 1.5."""
    rows = torch.tensor([[1.5, NAN, 7.0], [1.0, 1.0, 8.0]])
    x = torch.tensor([[0.0, 0.0, NAN]])
    assert Imputation.fit(rows).nearest(x)[0, 2].item() == 8


def test_each_cell_has_the_value_of_its_nearest_donor_and_keeps_known_cells() -> None:
    rows, x = with_gaps(60, 4, 0.3, 0), with_gaps(20, 4, 0.4, 1)
    fitted = Imputation.fit(rows)
    y = fitted.nearest(x)
    assert torch.equal(y, fitted.completions(x)[0])
    known = ~x.isnan()
    assert torch.equal(y[known], x[known])
    assert not y.isnan().any()
    assert torch.equal(fitted.nearest(y), y)


def test_all_inputs_of_a_category_come_from_one_donor() -> None:
    """So the filled cell is a category, and its one-hot vector has one large element."""
    codes = torch.stack([torch.randn(200), torch.randint(4, (200,)).double()], 1)
    codes[::7, 1] = NAN
    encode = EncodeColumns.fit(codes, (0, 4))
    x = encode(codes)
    fitted = Imputation.fit(x)
    filled = fitted.completions(x[::7])
    levels = encode(torch.tensor([[0.0, k] for k in range(4)]))[:, 1:]
    for vector in filled[..., 1:].flatten(0, 1):
        assert min((vector - level).abs().max().item() for level in levels) < 1e-12


def test_cells_missing_in_the_same_rows_have_one_donor() -> None:
    rows = torch.randn(50, 4)
    rows[:, 3] = rows[:, 2] * 10  # a relation that two different donors would break
    x = torch.cat([torch.randn(9, 2), torch.full((9, 2), NAN)], 1)
    y = Imputation.fit(rows).completions(x)
    torch.testing.assert_close(y[..., 3], y[..., 2] * 10)


def test_few_donors_are_repeated() -> None:
    fitted = Imputation.fit(torch.tensor([[0.0, 1.0], [1.0, 2.0]]))
    y = fitted.completions(torch.tensor([[0.1, NAN]]))
    assert y[:, 0, 1].tolist() == [1.0, 2.0, 1.0, 2.0, 1.0]


def test_columns_without_a_donor_and_rows_without_a_cell_are_filled() -> None:
    """Zero is the mean of a standardized column. An empty row gets values of a real row."""
    rows = torch.tensor([[1.0, NAN], [2.0, NAN]])
    fitted = Imputation.fit(rows)
    assert fitted.nearest(torch.tensor([[5.0, NAN]])).tolist() == [[5.0, 0.0]]
    (empty,) = fitted.nearest(torch.tensor([[NAN, NAN]])).tolist()
    assert empty[0] in {1.0, 2.0}


def test_relations_between_columns_survive(generator: Generator) -> None:
    """A column that is twice another one, with 30 % of its cells missing."""
    x = torch.randn(1000, 1, generator=generator) * torch.tensor([[1.0, 2.0]])
    gaps = x.clone()
    gaps[torch.rand(1000, generator=generator) < 0.3, 1] = NAN
    y = Imputation.fit(gaps).nearest(gaps)
    assert torch.corrcoef(y.T)[0, 1] > 0.999
    assert (y[:, 1] - 2 * x[:, 0]).abs().median() < 0.01


def test_rows_in_chunks_have_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, x = Imputation.fit(with_gaps(60, 4, 0.3, 0)), with_gaps(20, 4, 0.4, 1)
    whole = fitted.completions(x)
    monkeypatch.setattr(imputation, "CHUNK", 500)
    assert torch.equal(fitted.completions(x), whole)


def test_donors_are_a_random_sample_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imputation, "MAX_DONORS", 50)
    rows = torch.arange(1000.0)[:, None]
    kept = Imputation.fit(rows).rows
    assert len(kept.unique()) == 50
    assert 350 < kept.mean() < 650


def test_fitted_rows_do_not_change_with_the_data() -> None:
    rows = torch.tensor([[0.0, 10.0], [1.0, 20.0]])
    fitted = Imputation.fit(rows)
    rows.fill_(99.0)
    assert fitted.nearest(torch.tensor([[0.9, NAN]]))[0, 1].item() == 20


def test_cells_are_filled_from_rows_of_the_same_fold() -> None:
    """So a model that has not seen a fold has not seen its values either."""
    x = with_gaps(60, 4, 0.3, 0)
    folds = torch.arange(60) % 3
    filled = fill_within_folds(x, folds)
    incomplete = x.isnan().any(1)
    assert filled.completions.shape == (5, int(incomplete.sum()), 4)
    for k in range(3):
        expected = Imputation.fit(x[folds == k]).completions(x[folds == k])
        own = (folds == k) & incomplete
        assert torch.equal(filled.completions[:, filled.index[own]], expected[:, own[folds == k]])
        assert torch.equal(filled.rows[folds == k], expected[0])
    changed = x.clone()
    changed[folds == 0] = 99.0
    other = fill_within_folds(changed, folds)
    assert torch.equal(other.rows[folds != 0], filled.rows[folds != 0])
    outside = (folds != 0) & incomplete
    kept = other.completions[:, other.index[outside]]
    assert torch.equal(kept, filled.completions[:, filled.index[outside]])


def test_completions_are_drawn_equally_often() -> None:
    x = torch.tensor([[0.0, NAN], *([i / 10, float(i)] for i in range(5)), [7.0, 7.0]])
    filled = fill_within_folds(x, torch.zeros(7, dtype=torch.long))
    chosen = torch.tensor([[0, 6]]).repeat(5000, 1)
    drawn = filled.draw(chosen, Generator().manual_seed(0))
    assert torch.equal(drawn[:, 1], x[6].expand(5000, 2))
    counts = drawn[:, 0, 1].long().bincount(minlength=5)
    assert (counts - 1000).abs().max() < 5 * math.sqrt(5000 * 0.2 * 0.8)


def test_complete_rows_are_stored_once() -> None:
    x = torch.randn(12, 3)
    filled = fill_within_folds(x, torch.arange(12) % 2)
    assert torch.equal(filled.rows, x)
    assert filled.completions.numel() == 0
    assert Imputation.fit(x).nearest(x) is x
