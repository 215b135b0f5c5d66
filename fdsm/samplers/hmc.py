r"""Hamiltonian Monte Carlo, which samples the exact density with any step size.

Each move draws a momentum $p ∼ N(0, I)$, follows the dynamics of
$H(x, p) = -\log p(x) + ‖p‖²/2$ with leapfrog steps, and accepts the end point with probability
$\min(1, e^{-ΔH})$. Leapfrog is reversible and preserves volume, so the density is invariant. Its
error in $H$ is of second order in the step and only reduces the acceptance rate.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import score_of
from ..derivatives.checks.arguments import checked_density
from ..tensors import dot, per_example, randn_like
from ..typing import LogDensity, Score
from .chains import Progress, require_counts, track, validate_start
from .step_adaptation import ADAPTATION, StepAdaptation, initial_step_sizes


@dataclass(frozen=True, eq=False)
class Chains:
    """The result of Hamiltonian Monte Carlo.

    Attributes:
        samples: Last state of each chain, shape `(B, *E)`.
        acceptance: Mean acceptance probability of each chain after the burn-in, shape `(B,)`.
        step_sizes: Step size of each chain after the burn-in, shape `(B,)`.
        history: States kept after the burn-in, shape `(K, B, *E)`. `K` is zero unless `every` is
            given.
    """

    samples: Tensor
    acceptance: Tensor
    step_sizes: Tensor
    history: Tensor


def hmc(
    log_density: LogDensity,
    x: Tensor,
    steps: int,
    *,
    burn_in: int = 0,
    leapfrog: int = 10,
    step_size: float = 0.1,
    jitter: float = 0.2,
    adapt: StepAdaptation | None = ADAPTATION,
    every: int | None = None,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Chains:
    r"""Run chains of Hamiltonian Monte Carlo.

    Step sizes are adapted only during the burn-in, because a step that depends on the history of
    the chain changes its stationary distribution. A move to a point where the log-density or its
    gradient is not finite is rejected.

    Reference:
        Neal (2011), https://arxiv.org/abs/1206.1901.

    Args:
        log_density: The log-density, `(B, *E) -> (B,)`, up to a constant.
        x: Starting points of the chains, shape `(B, *E)`.
        steps: Number of moves after the burn-in.
        burn_in: Number of moves of the burn-in.
        leapfrog: Number of leapfrog steps per move. A move needs one more gradient than steps.
        step_size: Initial step size of all chains.
        jitter: Each move draws its step uniformly within this relative distance of the step
            size. Without jitter, a chain can return to the same point at every move.
        adapt: How the burn-in adapts the step size; None to keep it constant.
        every: Keep every `every`-th state after the burn-in. Default: only the last state.
        generator: Random number generator. Default: the global generator of torch.
        progress: Shows the progress of the loop.

    Returns:
        The last states, acceptance rates, step sizes and the states that were kept.

    Raises:
        TypeError: If `x` is not a tensor of real floating-point numbers.
        ValueError: If a number is out of range, or the log-density is not finite at `x`.

    Example:
        >>> quartic = lambda x: -x.pow(4).sum(1) / 4
        >>> chains = hmc(quartic, torch.zeros(10_000, 1), 20, burn_in=50)
        >>> bool((chains.samples.var() - 0.676).abs() < 0.05)  # 2 Γ(3/4) / Γ(1/4)
        True
    """
    require_counts(steps=steps, leapfrog=leapfrog, every=1 if every is None else every)
    require_counts(0, burn_in=burn_in)
    x = validate_start(x)
    step_sizes = initial_step_sizes(x, step_size, jitter, adapt)
    acceptance, kept = torch.zeros_like(step_sizes.step), []
    with torch.no_grad():
        _require_finite(log_density, x)
        for t in track(burn_in + steps, progress):
            step = step_sizes.sample(generator)
            x, probability = move(log_density, x, step, leapfrog, generator)
            if t < burn_in:
                step_sizes = step_sizes.update(probability)
                continue
            acceptance = acceptance + probability / steps
            if every and (t - burn_in + 1) % every == 0:
                kept.append(x)
    history = torch.stack(kept) if kept else x.new_empty(0, *x.shape)
    return Chains(x, acceptance, step_sizes.step, history)


def leapfrog(
    score: Score, x: Tensor, momentum: Tensor, steps: int, step: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Return position and momentum after a number of leapfrog steps.

    $$p ← p + \frac{h}{2} s(x), \qquad x ← x + h p, \qquad p ← p + \frac{h}{2} s(x)$$

    Adjacent half steps of the momentum are combined, so `steps` steps need `steps + 1` scores.

    Args:
        score: The score, `(B, *E) -> (B, *E)`.
        x: The positions, shape `(B, *E)`.
        momentum: The momenta, shape `(B, *E)`.
        steps: Number of steps.
        step: Step size $h$ of each chain, shape `(B,)`.

    Returns:
        The positions and momenta at the end.

    Example:
        >>> x, p = torch.tensor([[1.0]]), torch.tensor([[0.0]])
        >>> leapfrog(lambda x: -x, x, p, 1, torch.tensor([0.2]))
        (tensor([[0.9800]]), tensor([[-0.1980]]))
    """
    h = per_example(step, x)
    momentum = momentum + h / 2 * score(x)
    for _ in range(steps - 1):
        x = x + h * momentum
        momentum = momentum + h * score(x)
    x = x + h * momentum
    return x, momentum + h / 2 * score(x)


def move(
    log_density: LogDensity,
    x: Tensor,
    step: Tensor,
    steps: int,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the chains after one move, and its acceptance probabilities.

    Args:
        log_density: The log-density, `(B, *E) -> (B,)`, up to a constant.
        x: Current states of the chains, shape `(B, *E)`.
        step: Step size of each chain, shape `(B,)`.
        steps: Number of leapfrog steps.
        generator: Random number generator of momenta and acceptance.

    Returns:
        The next states, shape `(B, *E)`, and the probabilities, shape `(B,)`. A probability is
        zero if the log-density at the end point is not finite.
    """
    density = checked_density(log_density)
    p = randn_like(x, generator)
    x_end, p_end = leapfrog(score_of(density), x, p, steps, step)
    before, after = density(x), density(x_end)
    gain = after - before + (dot(p, p) - dot(p_end, p_end)) / 2
    possible = (after < torch.inf) & ~gain.isnan()
    probability = torch.where(possible, gain.clamp(max=0).exp(), 0)
    u = torch.rand(x.shape[:1], dtype=x.dtype, device=x.device, generator=generator)
    return torch.where(per_example(u < probability, x), x_end, x), probability


def _require_finite(log_density: LogDensity, x: Tensor) -> None:
    bad = (~checked_density(log_density)(x).isfinite()).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"the log-density is not finite at the starting points in rows {bad[:8]} of "
            f"{len(x)}: choose starting points where it is finite"
        )
