"""How long the steps of chains are: jittered at random, adapted to what is accepted."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .chains import require_positive, require_share


@dataclass(frozen=True)
class Adaptation:
    """How the step of each chain follows its acceptance.

    It grows while the mean acceptance is above the target, and shrinks while it is not. The mean
    is one that forgets: over the whole history a chain whose step has grown too long would have
    to reject about half as often as it has accepted before it turned back.

    Attributes:
        target: The probability of acceptance to aim at.
        up: The factor of growth.
        down: The factor of shrinkage.
        smallest: The step never falls below this.
        largest: The step never rises above this.
        memory: The weight of the past in the mean acceptance; the last move has the rest.

    Example:
        >>> Adaptation()(torch.tensor([0.1, 0.1, 0.5]), torch.tensor([0.7, 0.6, 0.7]))
        tensor([0.1020, 0.0980, 0.5000])
    """

    target: float = 0.65
    up: float = 1.02
    down: float = 0.98
    smallest: float = 1e-4
    largest: float = 0.5
    memory: float = 0.8

    def __post_init__(self) -> None:
        if not (0 < self.target < 1 and 0 < self.down < 1 < self.up):
            raise ValueError(
                "the target must be between 0 and 1, and one factor on each side of 1, but got "
                f"{self}"
            )
        if not 0 < self.smallest < self.largest:
            raise ValueError(f"steps must be positive and have room to adapt, but got {self}")
        require_share(memory=self.memory)

    def __call__(self, step: Tensor, acceptance: Tensor) -> Tensor:
        """Return the next step of each chain, given the last and the mean acceptance, `(B,)`."""
        change = torch.where(acceptance > self.target, self.up, self.down).to(step)
        return (step * change).clamp(self.smallest, self.largest)


ADAPTATION = Adaptation()
"""The target, factors and bounds of the published evaluation by AIS."""


@dataclass(frozen=True, eq=False)
class Pace:
    """The steps of all chains at one time.

    Attributes:
        step: The length of each chain's steps, shape `(B,)`.
        acceptance: The mean acceptance that decides their change, shape `(B,)`.
        jitter: The share of the step within which every move draws its own.
        adapt: How they change, if they do.
    """

    step: Tensor
    acceptance: Tensor
    jitter: float
    adapt: Adaptation | None

    def draw(self, generator: Generator | None = None) -> Tensor:
        """Return steps for one move, uniformly from $h (1 - j)$ to $h (1 + j)$, `(B,)`."""
        h = self.step
        if self.jitter == 0:
            return h
        u = torch.rand(h.shape, dtype=h.dtype, device=h.device, generator=generator)
        return h * (1 + self.jitter * (2 * u - 1))

    def after(self, probability: Tensor) -> "Pace":
        """Return the steps after a move that was accepted with these probabilities, `(B,)`."""
        if self.adapt is None:
            return self
        keep = self.adapt.memory
        mean = keep * self.acceptance + (1 - keep) * probability
        return replace(self, step=self.adapt(self.step, mean), acceptance=mean)


def first_pace(x: Tensor, step_size: float, jitter: float, adapt: Adaptation | None) -> Pace:
    """Return the same step for each chain.

    Args:
        x: The chains, shape `(B, *E)`.
        step_size: The step.
        jitter: The share of it within which every move draws its own.
        adapt: How it changes, if it does.

    Returns:
        The steps to begin with.

    Raises:
        ValueError: If a number is out of range, or the step outside of the bounds it adapts in.
    """
    require_positive(step_size=step_size)
    require_share(jitter=jitter)
    if adapt and not adapt.smallest <= step_size <= adapt.largest:
        raise ValueError(
            f"step_size is {step_size}, but its adaptation keeps steps between "
            f"{adapt.smallest} and {adapt.largest}: pass an `Adaptation` with other bounds"
        )
    step = x.new_full(x.shape[:1], step_size)
    return Pace(step, torch.full_like(step, adapt.target if adapt else 0.0), jitter, adapt)
