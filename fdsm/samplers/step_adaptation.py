"""Step sizes of Hamiltonian Monte Carlo: random jitter, and adaptation to the acceptance rate."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .chains import require_fraction, require_positive


@dataclass(frozen=True)
class StepAdaptation:
    """Rule that adapts the step size of each chain to its acceptance rate.

    The step grows while the mean acceptance is above the target and shrinks otherwise. The mean is
    an exponential moving average. With a mean over the whole history, a chain whose step has
    become too long would have to reject many moves before its step shrinks.

    Attributes:
        target: Target acceptance probability.
        grow: Factor by which the step grows.
        shrink: Factor by which the step shrinks.
        min_step: Lower bound of the step.
        max_step: Upper bound of the step.
        decay: Decay of the moving average of the acceptance.

    Example:
        >>> StepAdaptation()(torch.tensor([0.1, 0.1, 0.5]), torch.tensor([0.7, 0.6, 0.7]))
        tensor([0.1020, 0.0980, 0.5000])
    """

    target: float = 0.65
    grow: float = 1.02
    shrink: float = 0.98
    min_step: float = 1e-4
    max_step: float = 0.5
    decay: float = 0.8

    def __post_init__(self) -> None:
        if not (0 < self.target < 1 and 0 < self.shrink < 1 < self.grow):
            raise ValueError(
                "expected a target between 0 and 1, shrink below 1 and grow above 1, but got "
                f"{self}"
            )
        if not 0 < self.min_step < self.max_step:
            raise ValueError(f"expected 0 < min_step < max_step, but got {self}")
        require_fraction(decay=self.decay)

    def __call__(self, step: Tensor, acceptance: Tensor) -> Tensor:
        """Return the next step of each chain from its step and mean acceptance, shape `(B,)`."""
        factor = torch.where(acceptance > self.target, self.grow, self.shrink).to(step)
        return (step * factor).clamp(self.min_step, self.max_step)


ADAPTATION = StepAdaptation()
"""Target, factors and bounds of the published evaluation with AIS."""


@dataclass(frozen=True, eq=False)
class StepSizes:
    """The current step sizes of all chains.

    Attributes:
        step: Step size of each chain, shape `(B,)`.
        acceptance: Moving average of the acceptance of each chain, shape `(B,)`.
        jitter: Relative half-width of the random jitter of the step.
        adapt: The adaptation; None for constant steps.
    """

    step: Tensor
    acceptance: Tensor
    jitter: float
    adapt: StepAdaptation | None

    def sample(self, generator: Generator | None = None) -> Tensor:
        """Return step sizes for one move, uniform in $[h (1 - j), h (1 + j)]$, shape `(B,)`."""
        h = self.step
        if self.jitter == 0:
            return h
        u = torch.rand(h.shape, dtype=h.dtype, device=h.device, generator=generator)
        return h * (1 + self.jitter * (2 * u - 1))

    def update(self, probability: Tensor) -> "StepSizes":
        """Return the step sizes after a move with these acceptance probabilities, `(B,)`."""
        if self.adapt is None:
            return self
        a = self.adapt.decay
        mean = a * self.acceptance + (1 - a) * probability
        return replace(self, step=self.adapt(self.step, mean), acceptance=mean)


def initial_step_sizes(
    x: Tensor, step_size: float, jitter: float, adapt: StepAdaptation | None
) -> StepSizes:
    """Return the same step size for each chain.

    Args:
        x: The chains, shape `(B, *E)`.
        step_size: The step size.
        jitter: Relative half-width of the random jitter.
        adapt: The adaptation; None for constant steps.

    Returns:
        The initial step sizes.

    Raises:
        ValueError: If a number is out of range, or the step is outside of the adaptation bounds.
    """
    require_positive(step_size=step_size)
    require_fraction(jitter=jitter)
    if adapt and not adapt.min_step <= step_size <= adapt.max_step:
        raise ValueError(
            f"step_size is {step_size}, but its adaptation keeps steps between "
            f"{adapt.min_step} and {adapt.max_step}: pass a `StepAdaptation` with other bounds"
        )
    step = x.new_full(x.shape[:1], step_size)
    return StepSizes(step, torch.full_like(step, adapt.target if adapt else 0.0), jitter, adapt)
