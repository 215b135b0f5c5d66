"""Columns of corrected samples have the distributions of the training columns."""

import torch

from fdsm.runs.marginals import Marginals

G = torch.Generator().manual_seed(0)
NUMERIC = torch.tensor([True, True, False])


def fitted() -> tuple[Marginals, torch.Tensor]:
    x = torch.randn(5000, 3, generator=G).double()
    rows = torch.stack([x[:, 0].exp(), (2 * x[:, 1]).round(), (x[:, 2] > 0).double()], 1)
    samples = 3 * torch.randn(5000, 3, generator=G).double() + 7
    samples[:, 2] = 1.0
    return Marginals.fit(samples, rows, NUMERIC), rows


def new_samples(n: int) -> torch.Tensor:
    samples = 3 * torch.randn(n, 3, generator=G).double() + 7
    samples[:, 2] = 1.0
    return samples


def test_a_continuous_column_has_the_quantiles_of_the_data() -> None:
    marginals, _ = fitted()
    result = marginals.apply(new_samples(20_000))[:, 0]
    probabilities = torch.tensor([0.1, 0.5, 0.9]).double()
    expected = torch.special.ndtri(probabilities).exp()  # log-normal
    assert torch.allclose(result.quantile(probabilities), expected, rtol=0.1)


def test_a_column_with_repeated_values_has_these_values_with_their_frequencies() -> None:
    marginals, rows = fitted()
    result = marginals.apply(new_samples(20_000))[:, 1]
    assert set(result.unique().tolist()) <= set(rows[:, 1].unique().tolist())
    assert abs((result == 0).double().mean() - (rows[:, 1] == 0).double().mean()) < 0.02


def test_the_order_of_samples_is_kept() -> None:
    marginals, _ = fitted()
    ordered = torch.linspace(-5, 20, 200).double()[:, None].expand(-1, 3)
    assert (marginals.apply(ordered)[:, :2].diff(dim=0) >= 0).all()


def test_categories_are_not_changed() -> None:
    marginals, _ = fitted()
    assert (marginals.apply(new_samples(50))[:, 2] == 1).all()


def test_values_outside_the_samples_map_to_the_ends_of_the_data() -> None:
    marginals, rows = fitted()
    ends = marginals.apply(torch.tensor([[-1e9, -1e9, 0.0], [1e9, 1e9, 0.0]]).double())
    assert torch.equal(ends[:, 0], torch.stack([rows[:, 0].min(), rows[:, 0].max()]))


def test_missing_training_cells_do_not_count() -> None:
    rows = torch.tensor([[1.0], [2.0], [torch.nan], [3.0]]).double()
    marginals = Marginals.fit(torch.linspace(0, 1, 9)[:, None], rows, torch.tensor([True]))
    assert marginals.apply(torch.tensor([[0.0], [0.5], [1.0]]).double()).flatten().tolist() == [
        1.0,
        2.0,
        3.0,
    ]


def test_the_state_restores_the_map() -> None:
    marginals, _ = fitted()
    samples = new_samples(10)
    assert torch.equal(Marginals(**marginals.state()).apply(samples), marginals.apply(samples))
