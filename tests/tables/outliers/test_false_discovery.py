"""Benjamini-Hochberg against its definition and its guarantee."""

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from fdsm.tables.encoder import Encoder
from fdsm.tables.outliers import benjamini_hochberg

from ..table_cases import fit_detector


def by_definition(p_values: list[float], rate: float) -> list[bool]:
    """Reject the k smallest p-values for the largest k that passes. Ties pass together."""
    n = len(p_values)
    threshold = -1.0
    for k, p in enumerate(sorted(p_values), start=1):
        if p <= k * rate / n:
            threshold = p
    return [p <= threshold for p in p_values]


@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(20))
def test_rejections_are_those_of_the_definition(seed: int, rate: float) -> None:
    generator = Generator().manual_seed(seed)
    p = torch.rand(40, generator=generator).pow(3).mul(200).ceil().div(200)  # with ties
    assert benjamini_hochberg(p, rate).tolist() == by_definition(p.tolist(), rate)


def test_a_p_value_above_its_own_limit_is_rejected_if_a_larger_one_passes() -> None:
    """The limits are 0.025, 0.05, 0.075 and 0.1: only the last two p-values pass them."""
    p = torch.tensor([0.03, 0.06, 0.07, 0.09])
    assert benjamini_hochberg(p, 0.1).tolist() == [True] * 4
    assert benjamini_hochberg(torch.tensor([0.03, 0.06, 0.08, 0.11]), 0.1).tolist() == [False] * 4


def conformal_p_values(n: int, outliers: int, generator: Generator) -> Tensor:
    """P-values of n rows by 500 normal rows. The last `outliers` rows are shifted by 4."""
    known = torch.randn(500, generator=generator)
    new = torch.randn(n, generator=generator)
    new[n - outliers :] += 4
    return (1 + (known >= new[:, None]).sum(1)) / (len(known) + 1)


@pytest.mark.parametrize("outliers", [0, 20, 60])
def test_false_discovery_rate_is_the_rate_times_the_share_of_normal_rows(outliers: int) -> None:
    """For independent p-values, the expected rate is exactly rate · (normal rows / all rows)."""
    generator, n, rate = Generator().manual_seed(0), 100, 0.2
    false, found = [], []
    for _ in range(1500):
        rejected = benjamini_hochberg(conformal_p_values(n, outliers, generator), rate)
        wrong = rejected[: n - outliers].sum()
        false.append(float(wrong / rejected.sum().clamp_min(1)))
        found.append(float(rejected[n - outliers :].double().mean()) if outliers else 1.0)
    mean = torch.tensor(false).mean().item()
    assert mean == pytest.approx(rate * (n - outliers) / n, abs=0.03)
    assert torch.tensor(found).mean() > 0.9


def test_rows_with_nan_are_neither_rejected_nor_counted() -> None:
    p = torch.tensor([0.04, 0.001, 0.3, 0.012])
    gaps = torch.tensor([0.04, torch.nan, 0.001, 0.3, torch.nan, 0.012])
    known = ~gaps.isnan()
    rejected = benjamini_hochberg(gaps, 0.05)
    assert torch.equal(rejected[known], benjamini_hochberg(p, 0.05))
    assert not rejected[~known].any()


def test_nothing_is_rejected_without_small_p_values() -> None:
    for p in (torch.ones(5), torch.empty(0), torch.full((3,), torch.nan)):
        rejected = benjamini_hochberg(p, 0.1)
        assert rejected.dtype == torch.bool
        assert rejected.tolist() == [False] * len(p)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, float("nan")])
def test_rate_must_be_between_0_and_1(rate: float) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1, but is"):
        benjamini_hochberg(torch.ones(3), rate)


HEAVY_TAILS = {
    "t2": lambda random, n: random.standard_t(2, size=(n, 5)),
    "lognormal": lambda random, n: random.lognormal(size=(n, 5)),
    "cauchy": lambda random, n: random.standard_cauchy(size=(n, 5)),
}


@pytest.mark.parametrize(
    ("law", "tables"),
    [("t2", 12), *(pytest.param(law, 40, marks=pytest.mark.nightly) for law in HEAVY_TAILS)],
)
def test_rate_is_kept_on_heavy_tails(law: str, tables: int) -> None:
    """Rows of tables are compared by distances and cells. 95 + 5 new rows are tested together.

    A map through the outermost training values has rates from 0.25 to 0.35. If held-out rows
    counted in the tails of their own cells, p-values of 1/201 would be twice as frequent.
    """
    random = np.random.default_rng(0)
    draw = lambda n: torch.from_numpy(HEAVY_TAILS[law](random, n))
    flat = lambda x: torch.zeros(1, *x.shape[:2])
    quantiles = torch.tensor([0.005, 0.995])
    low, high = draw(20_000).flatten().quantile(quantiles)
    proportions, small, smallest = [], [], []
    for _ in range(tables):
        encoder = Encoder.fit(table := draw(200), (0,) * 5)
        rows = encoder(table)
        detector = fit_detector(flat, rows, torch.arange(200) % 4)
        new = draw(1000)
        new[:50, 0] += 2 * (high - low)
        p = detector.calibration.p_value(detector.measures(flat, encoder(new)))
        small.append((p[50:] <= 0.01).double().mean())
        smallest.append((p[50:] < 1.5 / 201).double().mean())
        for i in range(10):
            tested = torch.cat([p[5 * i : 5 * i + 5], p[50 + 95 * i : 50 + 95 * i + 95]])
            flagged = benjamini_hochberg(tested, 0.1)
            proportions.append(flagged[5:].sum() / flagged.sum().clamp_min(1))
    assert torch.stack(proportions).mean() < 0.12
    assert 0.005 < torch.stack(small).mean() < 0.016
    assert 0.002 < torch.stack(smallest).mean() < 0.0085
