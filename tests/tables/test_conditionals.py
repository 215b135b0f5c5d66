"""Each cell given the others: trees against scikit-learn, surprises against donors by hand."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sklearn.ensemble
import torch
from torch import Generator, Tensor

from fdsm.tables.conditionals import (
    DONORS,
    FEW_FEATURES,
    THRESHOLDS,
    TREES,
    CellView,
    Conditionals,
)
from fdsm.tables.encoder import Encoder

from .table_cases import plain_view

FOLDS = 3


def mixed_codes(n: int, generator: Generator) -> Tensor:
    """Return a date, a number near twice a code, yes or no, and the code, often another one."""
    code = torch.randint(3, (n,), generator=generator).double()
    number = 2 * code + 0.1 * torch.randn(n, generator=generator).double()
    date = 1.7e9 + 86_400 * torch.randint(700, (n,), generator=generator).double()
    is_other = torch.rand(n, generator=generator) < 0.2
    written = torch.where(is_other, (code + 1) % 3, code)
    return torch.stack([date, number, (code == 1).double(), written], 1)


def mixed_forests(n: int, generator: Generator) -> tuple[Conditionals, Tensor, Tensor]:
    """Return forests of mixed rows, the inputs of the rows and their folds."""
    codes = mixed_codes(n, generator)
    encoder = Encoder.fit(codes, (0, 0, 2, 3))
    inputs, folds = encoder(codes), torch.arange(n) % FOLDS
    return Conditionals.fit(CellView(encoder, (0,)), inputs, folds), inputs, folds


def donors_of(forests: Conditionals, x: Tensor, fold: int, column: int) -> Tensor:
    """Return the cells of the donors, by following each tree node by node, shape `(N, 50)`."""
    features, cells = forests.view.features(x), forests.view.cells(forests.rows)
    result = []
    for row in features:
        of_row = []
        for root in forests.roots[fold, column].tolist():
            node = root
            while (left := int(forests.left[node])) != node:
                is_left = row[forests.feature[node].item()] <= forests.threshold[node]
                node = left if is_left else left + 1
            of_row.append(cells[forests.donors[node].long(), column])
        result.append(torch.cat(of_row))
    return torch.stack(result)


# Cells and features


def test_cells_are_inputs_of_numbers_and_codes_of_categories(generator: Generator) -> None:
    codes = mixed_codes(40, generator)
    encoder = Encoder.fit(codes, (0, 0, 2, 3))
    view, inputs = CellView(encoder, (0,)), encoder(codes)
    cells = view.cells(inputs)
    assert torch.equal(cells[:, :2], inputs[:, :2].double())
    assert torch.equal(cells[:, 2:], codes[:, 2:])
    assert view.one_hot == (slice(3, 6),)
    assert view.column_of_feature.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("column", range(4))
def test_with_cells_is_the_inverse_of_cells(
    column: int, dtype: torch.dtype, generator: Generator
) -> None:
    """The cells of other rows come in, and all other inputs stay.

    Inputs are equal to the last bit, because a category with other inputs would be a new value.
    """
    codes = mixed_codes(60, generator)
    encoder = Encoder.fit(codes, (0, 0, 2, 3))
    view, (x, others) = CellView(encoder, (0,)), encoder(codes).to(dtype).chunk(2)
    changed = view.with_cells(x, column, view.cells(others)[:, column])
    block = encoder.blocks[column]
    assert torch.equal(changed[:, block], others[:, block])
    outside = [i for i in range(x.shape[1]) if not block.start <= i < block.stop]
    assert torch.equal(changed[:, outside], x[:, outside])
    assert torch.equal(view.with_cells(x, column, view.cells(x)[:, column]), x)


def test_missing_cells_are_those_of_the_first_input(generator: Generator) -> None:
    codes = mixed_codes(4, generator)
    encoder = Encoder.fit(codes, (0, 0, 2, 3))
    missing = torch.eye(4).bool()
    x = encoder(codes.masked_fill(missing, torch.nan))
    assert torch.equal(CellView(encoder, (0,)).is_missing(x), missing)


@pytest.mark.parametrize("hours", [5, 24 * 11, 24 * 397])
def test_parts_of_dates_are_those_of_the_calendar(hours: int) -> None:
    """From one week to 90 years. Inputs are float32, which is seconds to a minute of a date."""
    start = datetime(1931, 2, 27, 23, tzinfo=UTC)
    dates = [start + timedelta(hours=hours * i) for i in range(83)]
    codes = torch.tensor([[date.timestamp()] for date in dates], dtype=torch.float64)
    encoder = Encoder.fit(codes, (0,))
    features = CellView(encoder, (0,)).features(encoder(codes))
    expected = [[d.month - 1, d.day - 1, d.weekday(), d.hour] for d in dates]
    assert features[:, 1:].tolist() == expected


# Trees


def test_leaves_are_those_of_scikit_learn(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fitted forests are remembered. A number has regression trees, a category others."""
    grown: list[sklearn.ensemble.ExtraTreesRegressor] = []
    for name in ("ExtraTreesRegressor", "ExtraTreesClassifier"):
        kind = getattr(sklearn.ensemble, name)

        class Remembered(kind):  # type: ignore[misc, valid-type]
            def fit(self, *args: object) -> object:
                grown.append(self)
                return super().fit(*args)

        monkeypatch.setattr(sklearn.ensemble, name, Remembered)
    forests, inputs, _ = mixed_forests(200, generator)
    x = torch.cat([inputs, inputs + 0.3 * torch.randn(inputs.shape, generator=generator)])
    features = forests.view.features(x)
    assert len(grown) == FOLDS * 4
    for k in range(FOLDS):
        for j in range(4):
            others = np.flatnonzero(forests.view.column_of_feature != j)
            if len(others) < FEW_FEATURES:
                others = np.tile(others, -(-THRESHOLDS // len(others)))
            expected = torch.from_numpy(grown[4 * k + j].apply(features[:, others].numpy()))
            leaves = forests._leaves(features, k, j)
            for ours, theirs in zip(leaves.T, expected.T, strict=True):  # numbered differently
                pairs = torch.unique(torch.stack([ours.long(), theirs]), dim=1)
                assert len(ours.unique()) == len(theirs.unique()) == pairs.shape[1]


def test_donors_are_rows_of_the_leaf_outside_the_fold(generator: Generator) -> None:
    forests, inputs, folds = mixed_forests(200, generator)
    features = forests.view.features(inputs)
    for k in range(FOLDS):
        outside = (folds != k).nonzero().flatten()
        for j in range(4):
            leaves = forests._leaves(features, k, j)
            for tree in range(TREES):
                for leaf in leaves[:, tree].unique():
                    in_leaf = outside[leaves[outside, tree] == leaf].tolist()
                    donors = set(forests.donors[leaf].tolist())
                    assert donors <= set(in_leaf)
                    assert len(donors) == min(DONORS, len(in_leaf)) == DONORS


def test_forests_do_not_depend_on_the_rows_of_their_fold(generator: Generator) -> None:
    """Other rows in fold 1 leave its donors as they are."""
    rows, folds = torch.randn(90, 3, generator=generator), torch.arange(90) % FOLDS
    changed = torch.where(folds[:, None] == 1, 50.0, rows)
    x = torch.randn(20, 3, generator=generator)
    before, after = (Conditionals.fit(plain_view(3), r, folds) for r in (rows, changed))
    for j in range(3):
        same = [
            torch.equal(donors_of(before, x, k, j), donors_of(after, x, k, j))
            for k in range(FOLDS)
        ]
        assert same == [False, True, False]


def test_a_seed_gives_the_same_forests(generator: Generator) -> None:
    rows, folds = torch.randn(60, 2, generator=generator), torch.arange(60) % 2
    first, again, other = (Conditionals.fit(plain_view(2), rows, folds, seed=s) for s in (0, 0, 5))
    assert torch.equal(first.surprise(rows[None]), again.surprise(rows[None]))
    assert not torch.equal(first.surprise(rows[None]), other.surprise(rows[None]))


# Surprise


def test_surprise_of_a_number_is_its_distance_to_the_mean_of_its_donors(
    generator: Generator,
) -> None:
    """log(1 + (y - m)² / (s² + a²)) / 2, with the variance s² of all 50 donors."""
    forests, inputs, folds = mixed_forests(150, generator)
    x = inputs[:20]
    surprise = forests.surprise(x[None])
    assert surprise.shape == (FOLDS, 20, 4)
    for j in (0, 1):
        residual = torch.empty(150).double()
        for k in range(FOLDS):
            donors = donors_of(forests, x, k, j)
            variance = donors.var(1, correction=0) + forests.scale[j] ** 2
            ratio = (x[:, j] - donors.mean(1)).square() / variance
            torch.testing.assert_close(surprise[k, :, j], (1 + ratio).log() / 2)
            held_out = inputs[folds == k]
            mean = donors_of(forests, held_out, k, j).mean(1)
            residual[folds == k] = (held_out[:, j] - mean).abs()
        assert forests.scale[j].item() == pytest.approx(residual.median().item() / 2)


def test_surprise_of_a_category_is_its_share_among_its_donors(generator: Generator) -> None:
    """-log((count + 1/2) / 51). Each fold has its own rows here."""
    forests, inputs, _ = mixed_forests(150, generator)
    x = torch.stack(inputs[:60].split(20))
    surprise = forests.surprise(x)
    for j in (2, 3):
        for k in range(FOLDS):
            own = forests.view.cells(x[k])[:, j : j + 1]
            count = (donors_of(forests, x[k], k, j) == own).sum(1)
            torch.testing.assert_close(surprise[k, :, j], -((count.double() + 0.5) / 51).log())
    assert surprise[..., 2:].max() > 3 * surprise[..., 2:].median()


def test_numbers_with_few_values_are_compared_by_equality(generator: Generator) -> None:
    """Four values in 200 rows, and as many in 36 rows, of which each has less than ten."""
    for n, by_equality in ((200, True), (36, False)):
        number = torch.arange(n) % 4
        rows = torch.stack([number.float(), torch.randn(n, generator=generator)], 1)
        order = torch.randperm(n, generator=generator)
        forests = Conditionals.fit(plain_view(2), rows[order], torch.arange(n) % 2)
        assert forests.by_equality.tolist() == [by_equality, False]


def test_donor_cells_are_a_sample_of_the_conditional_distribution(generator: Generator) -> None:
    """For y = 2x + N(0, 0.1²), the mean is 2x and the standard deviation 0.1."""
    x = torch.rand(2000, generator=generator)
    rows = torch.stack([x, 2 * x + 0.1 * torch.randn(2000, generator=generator)], 1)
    forests = Conditionals.fit(plain_view(2), rows, torch.arange(2000) % 4)
    given = torch.linspace(0.1, 0.9, 9)
    rows_of_cells = forests.donor_rows(torch.stack([given, torch.full((9,), 99.0)], 1), 1)
    donors = forests.cells[rows_of_cells, 1]
    assert donors.shape == (9, 200)
    error = donors.mean(1).to(given) - 2 * given
    assert error.square().mean().sqrt() < 0.06
    assert donors.std(1).mean().item() == pytest.approx(0.1, abs=0.02)


def test_a_wrong_cell_is_surprising_although_it_is_usual_alone(generator: Generator) -> None:
    """With y = 2x + noise. At x = 1, y = 1 is ten deviations away, but not alone."""
    x = torch.randn(1000, generator=generator)
    rows = torch.stack([x, 2 * x + 0.1 * torch.randn(1000, generator=generator)], 1)
    folds = torch.arange(1000) % 4
    pair = Conditionals.fit(plain_view(2), rows, folds)
    alone = Conditionals.fit(plain_view(1), rows[:, 1:], folds)
    right, wrong = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 1.0]])
    given_x = [pair.surprise(r[None]).mean(0)[0, 1].item() for r in (right, wrong)]
    marginal = [alone.surprise(r[None, :, 1:]).mean().item() for r in (right, wrong)]
    assert given_x[0] < 0.5
    assert given_x[1] == pytest.approx(np.log(10), abs=0.4)
    assert max(marginal) < 0.7


def test_the_wrong_one_of_correlated_cells_is_the_most_surprising(generator: Generator) -> None:
    """Four columns that are one number plus noise: the others say what the cell should be."""

    def correlated(n: int) -> Tensor:
        common = torch.randn(n, 1, generator=generator)
        return common + 0.1 * torch.randn(n, 4, generator=generator)

    rows, x = correlated(500), correlated(40)
    forests = Conditionals.fit(plain_view(4), rows, torch.arange(500) % 4)
    wrong = torch.arange(40) % 4
    truth = x[torch.arange(40), wrong].clone()
    x[torch.arange(40), wrong] += torch.where(truth > 0, -1.5, 1.5)
    surprise = forests.surprise(x[None]).mean(0)
    assert (surprise.argmax(1) == wrong).double().mean() >= 0.9
    donors = torch.stack([forests.cells[forests.donor_rows(x, j), j] for j in range(4)])
    expected = donors[wrong, torch.arange(40)].median(1).values
    assert (expected - truth).abs().median() < 0.2
    assert (expected - truth).abs().quantile(0.9) < 0.4  # the error was 1.5


def test_a_single_column_has_the_surprise_of_its_own_distribution(generator: Generator) -> None:
    """There is nothing to predict it from, so all rows of the other folds may be donors."""
    rows, folds = torch.randn(300, 1, generator=generator), torch.arange(300) % FOLDS
    forests = Conditionals.fit(plain_view(1), rows, folds)
    assert (forests.left == torch.arange(FOLDS * TREES)).all()  # single leaves
    x = torch.tensor([[0.0], [3.0]])
    low, high = forests.surprise(x[None]).mean(0)[:, 0].tolist()
    # The scale is half of the median of |y|, which is 0.67.
    assert low == pytest.approx(0.0, abs=0.05)
    assert high == pytest.approx(np.log(1 + 9 / (1 + 0.34**2)) / 2, abs=0.2)


def test_rows_in_chunks_have_the_same_surprise(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    forests, inputs, _ = mixed_forests(100, generator)
    whole = forests.surprise(inputs[None])
    monkeypatch.setattr("fdsm.tables.conditionals.CHUNK", 7)
    assert torch.equal(forests.surprise(inputs[None]), whole)


def test_only_the_first_rows_of_a_large_table_grow_trees(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdsm.tables.conditionals.MAX_ROWS", 50)
    rows, folds = torch.randn(80, 2, generator=generator), torch.arange(80) % 2
    many, few = (Conditionals.fit(plain_view(2), rows[:n], folds[:n]) for n in (80, 50))
    assert torch.equal(many.surprise(rows[None]), few.surprise(rows[None]))
