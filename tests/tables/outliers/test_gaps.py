"""Combinations of missing cells."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from fdsm.tables import TableModel
from fdsm.tables.outliers.gaps import GapPatterns


def test_new_combinations_have_the_probability_of_good() -> None:
    """Of 50 rows, two have a combination that occurs once."""
    is_missing = torch.zeros(50, 3, dtype=torch.bool)
    is_missing[:10, 2] = True
    is_missing[10, :2] = True
    is_missing[11, 1:] = True
    gaps = GapPatterns.fit(is_missing)
    assert sorted(gaps.counts.tolist()) == [1, 1, 10, 38]
    surprise = -math.log10(2.5 / 51)
    # Alone, the second column is never missing. The third is, and so are the first two.
    rows = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]], dtype=torch.bool)
    assert gaps.surprise(rows).tolist() == pytest.approx([surprise, 0.0, 0.0, 0.0])
    # A training row does not count itself.
    held_out = gaps.surprise(is_missing, leave_one_out=True)
    assert held_out.nonzero().flatten().tolist() == [10, 11]
    assert held_out[10].item() == pytest.approx(surprise)


def test_new_combinations_are_as_rare_among_new_rows_as_estimated() -> None:
    """Cells are missing at random: a tenth of the first column, half of the others."""
    generator = torch.Generator().manual_seed(0)
    share = torch.tensor([0.1, 0.5, 0.5, 0.5, 0.5, 0.5])
    found, estimated = [], []
    for _ in range(200):
        train, new = (torch.rand(2, 100, 6, generator=generator) < share).unbind()
        gaps = GapPatterns.fit(train)
        surprise = gaps.surprise(new)
        found.append((surprise > 0).double().mean().item())
        estimated.append((int((gaps.counts == 1).sum()) + 0.5) / 101)
        assert (surprise[surprise > 0] + math.log10(estimated[-1])).abs().max() < 1e-9
    assert np.mean(found) == pytest.approx(np.mean(estimated), abs=0.02)
    assert np.mean(found) > 0.1


@pytest.mark.parametrize(
    ("gaps", "column", "text"),
    [
        (["amount"], "amount", "missing, but present in all training rows"),
        (["note", "size"], "size", "missing; no training row has gaps in the same cells"),
    ],
)
def test_a_gap_where_there_never_was_one_is_the_reason(
    gaps: list[str], column: str, text: str
) -> None:
    """A quarter of the notes and a tenth of the sizes are missing, but never both."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(600, 3)), columns=["amount", "size", "note"])
    kind = random.choice(3, 600, p=[0.65, 0.25, 0.1])
    table.loc[kind == 1, "note"] = np.nan
    table.loc[kind == 2, "size"] = np.nan
    model = TableModel.fit(table, iterations=20)
    new = pd.DataFrame(0.1 * random.normal(size=(4, 3)), columns=table.columns)
    new.loc[1, "note"] = np.nan
    new.loc[2, gaps] = np.nan
    scored = model.score(new)
    assert scored.p_value[2] == scored.p_value.min() <= 0.05
    assert (scored.p_value[[0, 1, 3]] > 0.2).all()
    reason = scored.reasons[2][0]
    assert reason.column == column
    assert reason.value.startswith(text)
    assert model.explain(new)[2][0] == reason


def test_an_unknown_category_is_no_gap() -> None:
    """It is less surprising than a gap, because other categories occur once."""
    random = np.random.default_rng(1)
    kind = [*random.choice(["a", "b"], 900), *map(str, range(40))]
    table = pd.DataFrame({"x": random.normal(size=940), "kind": kind})
    model = TableModel.fit(table, categorical=["kind"], iterations=20)
    scored = model.score(pd.DataFrame({"x": [0.0, 0.0], "kind": ["c", None]}))
    assert scored.p_value[0] > 0.05
    assert scored.p_value[1] < 0.05
    assert scored.reasons[0][0].value == "'c' does not occur in the training data"
    assert scored.reasons[1][0].value == "missing, but present in all training rows"
