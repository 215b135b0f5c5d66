import pytest
import torch

from benchmarks.learning_problems import (
    PROBLEMS,
    LearningProblem,
    NoisyRows,
    halve,
    load_mnist,
    load_wine,
)
from paper.data import DataError


def test_noisy_rows_are_standardized_with_their_noise(generator: torch.Generator) -> None:
    """A constant column is noise of variance one, the others keep their share of noise."""
    rows = torch.randn(20_000, 3, generator=generator) * torch.tensor([2.0, 1.0, 0.0]) + 5
    problem = LearningProblem("p", lambda: (rows, rows[:100]), (8,), 0.5)
    data, test = problem.data()
    drawn = data.draw(50_000, generator)
    torch.testing.assert_close(drawn.mean(0), torch.zeros(3), rtol=0, atol=0.03)
    torch.testing.assert_close(drawn.std(0), torch.ones(3), rtol=0.02, atol=0)
    assert data.scale[2].item() == pytest.approx(0.5)
    assert torch.equal(test, problem.data()[1])


def test_noise_is_drawn_anew_and_scaled(generator: torch.Generator) -> None:
    data = NoisyRows(torch.zeros(1, 2), torch.tensor([1.0, 4.0]), 2.0)
    drawn = data.draw(20_000, generator)
    torch.testing.assert_close(drawn.std(0), torch.tensor([2.0, 0.5]), rtol=0.03, atol=0)


def test_networks_of_a_seed_are_the_same() -> None:
    problem = PROBLEMS[0]
    x = torch.ones(1, 11, dtype=torch.float32)
    first, again, other = (problem.network(11, seed)(x) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_images_are_averaged_over_squares() -> None:
    image = torch.tensor([[[[0, 255], [255, 0]]]], dtype=torch.uint8)
    assert halve(image).tolist() == [[0.5]]


def test_loaders_return_rows_of_known_size() -> None:
    try:
        wine, mnist = load_wine(), load_mnist(test_rows=7)
    except DataError:
        pytest.skip("the data are not there")
    assert (wine[0].shape[1], mnist[1].shape) == (11, (7, 196))
    assert 0.5 < mnist[0].amax() <= 1
