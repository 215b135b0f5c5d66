"""Chunks of coordinates and rows, and the memory they are chosen by."""

import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import Autodiff, Taylor
from fdsm.objectives import SM
from fdsm.operators import coordinates, laplacian
from fdsm.operators.coordinates import (
    along_coordinates,
    bytes_per_coefficient,
    sum_over_coordinates,
)


def identity(units: Tensor, x: Tensor) -> Tensor:
    assert units.shape[1:] == x.shape
    return units


@pytest.mark.parametrize("chunk", [1, 4, 100, None])
@pytest.mark.parametrize("row_chunk", [1, 2, 100, None])
def test_directions_are_the_unit_vectors(chunk: int | None, row_chunk: int | None) -> None:
    x = torch.randn(3, 2, 3)
    parts = along_coordinates(identity, None, x, chunk=chunk, row_chunk=row_chunk)
    units = torch.cat([torch.cat(part) for part in parts], 1)
    assert units.shape == (6, 3, 2, 3)
    for row in units.unbind(1):
        assert torch.equal(row.flatten(1), torch.eye(6))


def test_some_coordinates() -> None:
    parts = along_coordinates(identity, None, torch.zeros(2, 4), among=torch.tensor([1, 3]))
    assert torch.equal(parts[0][0][:, 0], torch.eye(4)[[1, 3]])


def test_rows_stay_together() -> None:
    x, c = torch.arange(7.0)[:, None], torch.arange(7.0)
    same = sum_over_coordinates(lambda units, x, c: x[:, 0] - c, None, x, c, row_chunk=3)
    assert torch.equal(same, torch.zeros(7))


def test_memory_of_a_network_and_of_a_convolution() -> None:
    x = torch.zeros(5, 3, dtype=torch.float32)
    layers = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 4), nn.Linear(4, 1))
    assert bytes_per_coefficient(layers, x, False) == 4 * 3 * 10
    assert bytes_per_coefficient(layers, x, True) == 4 * 2 * (3 + 10 + 4 + 1)
    assert bytes_per_coefficient(lambda x: layers(x).sum(1), x, False) == 4 * 3 * 10
    assert bytes_per_coefficient(lambda x: x.sum(1), x.double(), False) == 8 * 3 * 3
    image = torch.zeros(5, 2, 6, 6)
    assert bytes_per_coefficient(nn.Conv2d(2, 8, 3), image, False) == 8 * 3 * 8 * 36


def test_chunks_are_chosen_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, int]] = []

    def count(units: Tensor, x: Tensor) -> Tensor:
        shapes.append((len(units), len(x)))
        return x[:, 0]

    x = torch.zeros(8, 100)
    size = 8 * 3 * 100
    monkeypatch.setattr(coordinates, "MIN_CHUNK_ROWS", 1)
    with torch.no_grad():
        along_coordinates(count, None, x)
        assert shapes == [(100, 8)]
        shapes.clear()
        monkeypatch.setattr(coordinates, "CACHE", 102 * size * 3)
        along_coordinates(count, None, x)
        assert shapes == [(100, 3), (100, 3), (100, 2)]
        shapes.clear()
        monkeypatch.setattr(coordinates, "CACHE", 52 * size)
        along_coordinates(count, None, x[:2])
        assert shapes == [(50, 1), (50, 1)] * 2
        shapes.clear()
        monkeypatch.setattr(coordinates, "CACHE", 1)
        along_coordinates(count, None, x[:1])
        assert shapes == [(32, 1), (32, 1), (32, 1), (4, 1)]


def saved_bytes(x: Tensor, model: nn.Module) -> tuple[int, Tensor]:
    """Return the bytes that are kept for the backward pass, and the gradient."""
    sizes: dict[int, int] = {}

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        total = laplacian(model, x, derivative=Taylor()).sum()
    (gradient,) = torch.autograd.grad(total, next(iter(model.parameters())))
    return sum(sizes.values()), gradient


def test_beyond_the_memory_chunks_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
    x = torch.randn(16, 20)
    whole, expected = saved_bytes(x, model)
    monkeypatch.setattr(coordinates, "MIN_CHUNK_ROWS", 1)
    monkeypatch.setattr(coordinates, "MEMORY", bytes_per_coefficient(model, x, True) * 22 * 4)
    less, gradient = saved_bytes(x, model)
    torch.testing.assert_close(gradient, expected)
    assert less < whole / 8


@pytest.mark.parametrize("wrong", [{"chunk": 0}, {"row_chunk": -1}], ids=str)
def test_chunks_must_be_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="chunks must be positive"):
        along_coordinates(identity, None, torch.zeros(2, 3), **wrong)


def test_gradients_inside_a_term_do_not_evaluate_the_model_again() -> None:
    """A chunk that is recomputed in the backward pass would be, once for each of its gradients."""
    calls = []

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.tensor(2.0))

        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            return -self.a * x.pow(4).sum(1)

    model, x = Counted(), torch.ones(3, 6)
    loss = SM(Autodiff(), chunk=2)(model, x)  # Δf = -12 a · 6 at one, ∇f = -4 a
    assert loss.tolist() == pytest.approx([(-12 * 2 * 6 + 64 * 6 / 2) / 6] * 3)
    for _ in range(2):  # the model is inspected at its 1st, 2nd, 4th and 8th evaluation
        SM(Autodiff(), chunk=2)(model, x)
    calls.clear()
    SM(Autodiff(), chunk=2)(model, x).sum().backward()
    assert calls == [3, 3, 3]
