"""Directions are drawn in one call, independently, and belong to their row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm import SSM, FiniteDifference, Gaussian, Rademacher, Sphere
from fdsm.objectives.directions import average_over_directions
from fdsm.projections import draw_directions
from fdsm.tensors import length
from fdsm.typing import Projection


class Operations(TorchDispatchMode):
    """Lists the names of the operations of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        self.names.append(str(func).split(".")[1])
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Radial:
    """A projection of the user: the direction depends on the row."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        return x / length(x, keepdim=True)

    def second_moment(self, x: Tensor) -> float:
        return 1.0


def test_one_direction_per_row_is_a_sample_of_the_projection(generator: Generator) -> None:
    x = torch.randn(5, 2, 3, generator=generator)
    v = draw_directions(Sphere(0.3), x, 1, Generator().manual_seed(1))
    normal = torch.randn(x.shape, generator=Generator().manual_seed(1))
    assert torch.equal(v, (normal * (0.3 / length(normal, keepdim=True)))[None])


@pytest.mark.parametrize("projection", [Sphere(0.7), Rademacher(0.7), Gaussian()], ids=str)
def test_directions_of_a_row_are_independent(projection: Projection, generator: Generator) -> None:
    x = torch.empty(20_000, 4)
    v = draw_directions(projection, x, 3, generator)
    assert v.shape == (3, 20_000, 4)
    moments = torch.einsum("vbi,wbj->viwj", v, v).reshape(12, 12) / len(x)
    c = projection.second_moment(x) / 4
    torch.testing.assert_close(moments, c * torch.eye(12), rtol=0, atol=0.05 * c)


def test_directions_of_a_projection_of_the_user_follow_their_row(generator: Generator) -> None:
    x = torch.randn(5, 3, generator=generator)
    torch.testing.assert_close(draw_directions(Radial(), x, 4), Radial().sample(x).expand(4, 5, 3))


@pytest.mark.parametrize("directions", [1, 8])
def test_all_directions_are_one_draw(directions: int, generator: Generator) -> None:
    x = torch.randn(6, 5, generator=generator)
    with Operations() as operations:
        draw_directions(Sphere(0.1), x, directions, generator)
    assert operations.names.count("randn_like") == 1


@pytest.mark.parametrize(("directions", "expected"), [(1, 24), (8, 26)])
def test_operations_of_a_loss(directions: int, expected: int, generator: Generator) -> None:
    """The shortest version by hand, in float32 and without checks, takes 19."""
    x = torch.randn(6, 5, generator=generator).float()
    weight = -torch.ones(5).float().requires_grad_()
    objective = SSM(FiniteDifference(), Sphere(0.1), directions)
    f = lambda x: x.square() @ weight
    for _ in range(4):  # the fifth evaluation is not inspected
        objective(f, x, generator=generator)
    with Operations() as operations:
        objective(f, x, generator=generator)
    assert len(operations.names) == expected, operations.names


def test_averages_are_over_directions(generator: Generator) -> None:
    x, v = torch.randn(5, 3, generator=generator), torch.randn(4, 5, 3, generator=generator)
    loss = lambda x, v: (x * v).sum(1)
    torch.testing.assert_close(average_over_directions(loss, x, v), (x * v).sum(2).mean(0))


def test_no_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one direction"):
        draw_directions(Sphere(0.1), torch.zeros(2, 3), 0)
