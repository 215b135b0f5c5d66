"""Tests of data sets of samples from known densities."""

import pytest
import torch

from paper.data import GaussianDensity, SyntheticData


def test_samples_are_determined_by_the_seed() -> None:
    density = GaussianDensity((0.0, 0.0))
    first, again, other = (SyntheticData(density, 50, seed).load() for seed in (0, 0, 1))
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, other.train)
    assert first.train.dtype == torch.float32
    assert [len(x) for x in (first.train, first.validation, first.test)] == [50, 5, 5]
    rows = torch.cat([first.train, first.validation, first.test])
    assert len(rows.unique(dim=0)) == 60
    with pytest.raises(ValueError, match="n must be at least 1, but is 0"):
        SyntheticData(density, 0)
