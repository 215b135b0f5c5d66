"""Directions have the length and the moments they claim."""

import pytest
import torch
from torch import Generator

from fdsm.projections import Gaussian, Rademacher, Sphere
from fdsm.typing import Projection

PROJECTIONS = [Sphere(0.7), Rademacher(0.7), Gaussian()]
projections = pytest.mark.parametrize("projection", PROJECTIONS, ids=str)


@projections
@pytest.mark.parametrize("event", [(6,), (1, 2, 3)], ids=str)
def test_second_moment_is_isotropic(
    projection: Projection, event: tuple[int, ...], generator: Generator
) -> None:
    x = torch.empty(100_000, *event)
    v = projection.sample(x, generator).flatten(1)
    assert v.mean(0).abs().max() < 5 * v.std() / len(v) ** 0.5
    outer = v.T @ v / len(v)
    c = projection.second_moment(x)
    torch.testing.assert_close(outer, torch.eye(6) * c / 6, rtol=0, atol=0.02 * c / 6)


@pytest.mark.parametrize("projection", PROJECTIONS[:2], ids=str)
def test_length_is_the_radius_over_the_whole_event(
    projection: Projection, generator: Generator
) -> None:
    v = projection.sample(torch.empty(50, 3, 4, 5), generator)
    torch.testing.assert_close(v.flatten(1).norm(dim=1), torch.full((50,), 0.7))


@pytest.mark.parametrize(
    ("projection", "variance"),
    [
        (Gaussian(), lambda h: 2 * h.square().sum()),
        (Rademacher(6**0.5), lambda h: 2 * (h.square().sum() - h.diagonal().square().sum())),
        (Sphere(6**0.5), lambda h: 2 * 6 / 8 * (h.square().sum() - h.trace() ** 2 / 6)),
    ],
    ids=["Gaussian", "Rademacher", "Sphere"],
)
def test_variance_of_the_trace_estimate(
    projection: Projection, variance: object, generator: Generator
) -> None:
    h = torch.randn(6, 6, generator=generator)
    h = h + h.T
    v = projection.sample(torch.empty(400_000, 6), generator)
    trace = torch.einsum("bi,ij,bj->b", v, h, v)
    assert trace.mean() == pytest.approx(
        h.trace().item(), abs=5 * trace.std().item() / 400_000**0.5
    )
    assert trace.var().item() == pytest.approx(variance(h).item(), rel=0.02)


@projections
def test_directions_have_the_dtype_of_the_data_and_depend_on_the_generator(
    projection: Projection,
) -> None:
    x = torch.empty(3, 4).float()
    a, b = (projection.sample(x, Generator().manual_seed(2)) for _ in range(2))
    assert a.dtype == torch.float32
    assert torch.equal(a, b)
    with pytest.raises(TypeError, match="floating-point"):
        projection.sample(x.long())


@pytest.mark.parametrize("kind", [Sphere, Rademacher])
@pytest.mark.parametrize("radius", [0.0, -0.1, float("nan"), float("inf")])
def test_invalid_radii_are_refused(kind: type, radius: float) -> None:
    with pytest.raises(ValueError, match="radius must be positive"):
        kind(radius)
