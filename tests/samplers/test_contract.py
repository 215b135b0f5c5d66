"""All samplers: reproducible, without a graph or side effects, for any shape."""

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.progress import track
from rich.text import Text
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.samplers import (
    GaussianMixtureProposal,
    Temperatures,
    ais,
    annealed_langevin,
    hmc,
    importance_log_partition,
    langevin,
    latent_log_likelihood_ais,
    tempered_langevin,
)

from .sampler_cases import standard_normal


class Model(nn.Module):
    """A log-density with parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor, *_: Tensor) -> Tensor:
        return -self.a.to(x) * x.unsqueeze(-1).flatten(1).square().sum(1) / 2

    def decoder(self, x: Tensor, z: Tensor) -> Tensor:
        return self(x) + self(z)


BETAS = (0.0, 0.2, 1.0)
Sampler = Callable[..., Tensor]
SAMPLERS: dict[str, tuple[Sampler, int]] = {
    "langevin": (lambda m, x, **k: langevin(score_of(m), x, 3, 0.1, **k), 3),
    "annealed": (
        lambda m, x, **k: annealed_langevin(score_of(m), x, (1.0, 0.5), steps=2, **k),
        4,
    ),
    "tempered": (
        lambda m, x, **k: tempered_langevin(score_of(m), x, Temperatures(1, 2, 2), **k),
        5,
    ),
    "hmc": (lambda m, x, **k: hmc(m, x, 3, burn_in=2, **k).samples, 5),
    "ais": (lambda m, x, **k: ais(m, m, x, temperatures=BETAS, **k).samples, 2),
}
ESTIMATES: dict[str, tuple[Sampler, int]] = {
    "weights": (lambda m, x, **k: ais(m, m, x, temperatures=BETAS, **k).log_weights, 2),
    "likelihood": (
        lambda m, x, **k: (
            latent_log_likelihood_ais(m.decoder, x, (2,), temperatures=BETAS, **k).value
        ),
        2,
    ),
    "importance": (
        lambda m, x, **k: torch.tensor(
            importance_log_partition(m, GaussianMixtureProposal(x, 1.0), 10, batch=4, **k).value
        ),
        3,
    ),
}
ALL = SAMPLERS | ESTIMATES


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ALL)
def test_results_depend_only_on_the_generator(name: str) -> None:
    sampler, _ = ALL[name]
    x = torch.randn(4, 2)
    state = torch.get_rng_state()
    first, again, other = (sampler(Model(), x, generator=seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    if name != "weights":  # all weights are one if both densities are equal
        assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ALL)
def test_no_graph_is_kept_and_inputs_are_unchanged(name: str) -> None:
    sampler, _ = ALL[name]
    model, x = Model(), torch.randn(4, 2).requires_grad_()
    before = x.detach().clone()
    found = sampler(model, x, generator=seeded(0))
    assert not found.requires_grad
    assert found.grad_fn is None
    assert model.a.grad is None
    assert x.grad is None
    assert torch.equal(x, before)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 1, 4, 4)])
def test_shape_and_dtype_are_preserved_and_chains_are_independent(
    name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    sampler, _ = SAMPLERS[name]
    x = torch.randn(shape, dtype=dtype)
    found = sampler(Model(), x, generator=seeded(0))
    assert found.shape == shape
    assert found.dtype == dtype
    moved = x.clone()
    moved[0] += 3
    other = sampler(Model(), moved, generator=seeded(0))
    assert torch.equal(found[1:], other[1:])
    assert not torch.equal(found[0], other[0])


@pytest.mark.parametrize("name", ALL)
def test_progress_receives_every_step(name: str) -> None:
    sampler, steps = ALL[name]
    seen = []

    def watch(numbers: Iterable[int]) -> Iterator[int]:
        for n in numbers:
            seen.append(n)
            yield n

    x = torch.randn(4, 2)
    watched = sampler(Model(), x, generator=seeded(0), progress=watch)
    assert seen == list(range(steps))
    assert torch.equal(watched, sampler(Model(), x, generator=seeded(0)))


def test_progress_can_be_shown_with_rich() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    progress = partial(track, description="sampling", console=console)
    x = torch.zeros(1, 1)
    shown = langevin(lambda x: -x, x, 3, 0.1, generator=seeded(0), progress=progress)
    assert torch.equal(shown, langevin(lambda x: -x, x, 3, 0.1, generator=seeded(0)))
    text = Text.from_ansi(console.file.getvalue()).plain  # type: ignore[attr-defined]
    assert "sampling" in text
    assert "100%" in text


@pytest.mark.parametrize("name", [name for name in ALL if name != "importance"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(2, 2, dtype=torch.long), TypeError, "floating-point"),
        (torch.zeros(0, 2), ValueError, r"at least one chain.*\(0, 2\)"),
        (torch.tensor(1.0), ValueError, "at least one chain"),
        (torch.zeros(2, 2, device="meta"), ValueError, "meta device"),
        (np.zeros((2, 2)), TypeError, r"got numpy.ndarray: use torch.from_numpy\(x\)"),
        (torch.tensor([[0.0], [torch.nan]]), ValueError, r"not finite in rows \[1\] of 2"),
    ],
)
def test_invalid_starting_points_are_refused(
    name: str, x: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ALL[name][0](Model(), x)


@pytest.mark.parametrize("size", [0.0, -0.1, float("nan"), float("inf")])
def test_invalid_step_sizes_are_refused(size: float) -> None:
    x, score = torch.zeros(1, 1), lambda x, *_: -x
    calls: list[Callable[[], Any]] = [
        lambda: langevin(score, x, 1, size),
        lambda: annealed_langevin(score, x, (1.0,), step_size=size),
        lambda: hmc(standard_normal, x, 1, step_size=size),
        lambda: ais(standard_normal, standard_normal, x, step_size=size),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="step_size must be a positive number"):
            call()
    with pytest.raises(ValueError, match="step must be a positive number"):
        tempered_langevin(score, x, step=size)
    with pytest.raises(ValueError, match="sigma must be a positive number"):
        tempered_langevin(score, x, sigma=size)


@pytest.mark.parametrize("steps", [0, -1, 1.5])
def test_invalid_numbers_of_steps_are_refused(steps: int) -> None:
    x, score = torch.zeros(1, 1), lambda x, *_: -x
    for call in (
        lambda: langevin(score, x, steps, 0.1),
        lambda: annealed_langevin(score, x, (1.0,), steps=steps),
        lambda: hmc(standard_normal, x, steps),
    ):
        with pytest.raises(ValueError, match="steps must be an integer of at least 1"):
            call()


def test_models_of_the_wrong_shape_are_refused() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="must return the shape of its input"):
        langevin(lambda x: x.sum(1), x, 1, 0.1)
    with pytest.raises(ValueError, match="log_density must return shape"):
        hmc(lambda x: x.sum(1, keepdim=True), x, 1)
    with pytest.raises(ValueError, match="log_density must return shape"):
        ais(standard_normal, lambda x: x, x, temperatures=BETAS)
