r"""Hamiltonian Monte Carlo: samples that are exact whatever the step.

Every move draws a momentum $p ∼ N(0, I)$, follows the dynamics of
$H(x, p) = -\log p(x) + ‖p‖²/2$ by leapfrog steps, and accepts where it ended with probability
$\min(1, e^{-ΔH})$. Leapfrog is reversible and keeps volumes, so that the density is left as it
was; its error in $H$ is of second order in the step and costs acceptance only.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives import score_of
from ..derivatives.validation import checked_density
from ..tensors import dot, per_example, randn_like
from ..typing import LogDensity, Score
from .chains import Progress, counted, require_counts, start
from .pace import ADAPTATION, Adaptation, first_pace


@dataclass(frozen=True, eq=False)
class Chains:
    """What Hamiltonian Monte Carlo came to.

    Attributes:
        samples: The last state of each chain, shape `(B, *E)`.
        acceptance: The mean probability of acceptance of each chain after the burn-in, `(B,)`.
        step_sizes: The step of each chain after the burn-in, `(B,)`.
        history: What was kept of the states after the burn-in, shape `(K, B, *E)`; `K` is zero
            unless asked for.
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
    adapt: Adaptation | None = ADAPTATION,
    every: int | None = None,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Chains:
    r"""Return chains of Hamiltonian Monte Carlo.

    Steps are adapted during the burn-in only, since a step that depends on where the chain has
    been would change what it converges to. A move into a place where the log-density or its
    gradient is not finite is rejected.

    Reference:
        Neal (2011), https://arxiv.org/abs/1206.1901.

    Args:
        log_density: The log-density, `(B, *E) -> (B,)`, up to a constant.
        x: Where the chains start, shape `(B, *E)`.
        steps: How many moves after the burn-in.
        burn_in: How many moves before.
        leapfrog: How many steps of the position make up a move; it takes one more gradient.
        step_size: The first length of such a step, for all chains.
        jitter: Every move draws its step uniformly within this share of it; zero for none. A
            fixed step can bring a chain back to where it was, move after move.
        adapt: How the burn-in adapts the step; None to leave it.
        every: Keep every so many states after the burn-in; by default only the last.
        generator: Source of momenta and of acceptance; torch's global one by default.
        progress: Watches the moves.

    Returns:
        The last states, how often moves were accepted, the steps, and the states to be kept.

    Raises:
        TypeError: If `x` is not of real floating-point numbers.
        ValueError: If a number is out of range, or the log-density not finite at `x`.

    Example:
        >>> quartic = lambda x: -x.pow(4).sum(1) / 4
        >>> chains = hmc(quartic, torch.zeros(10_000, 1), 20, burn_in=50)
        >>> bool((chains.samples.var() - 0.676).abs() < 0.05)  # 2 Γ(3/4) / Γ(1/4)
        True
    """
    require_counts(steps=steps, leapfrog=leapfrog, every=1 if every is None else every)
    require_counts(0, burn_in=burn_in)
    x, pace = start(x), first_pace(x, step_size, jitter, adapt)
    acceptance, kept = torch.zeros_like(pace.step), []
    with torch.no_grad():
        _require_inside(log_density, x)
        for t in counted(burn_in + steps, progress):
            x, probability = move(log_density, x, pace.draw(generator), leapfrog, generator)
            if t < burn_in:
                pace = pace.after(probability)
                continue
            acceptance = acceptance + probability / steps
            if every and (t - burn_in + 1) % every == 0:
                kept.append(x)
    history = torch.stack(kept) if kept else x.new_empty(0, *x.shape)
    return Chains(x, acceptance, pace.step, history)


def leapfrog(
    score: Score, x: Tensor, momentum: Tensor, steps: int, step: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Return position and momentum after a number of leapfrog steps.

    $$p ← p + \frac{h}{2} s(x), \qquad x ← x + h p, \qquad p ← p + \frac{h}{2} s(x)$$

    Neighbouring half steps of the momentum are taken as one, so that there is one more score
    than there are steps.

    Args:
        score: The score, `(B, *E) -> (B, *E)`.
        x: The positions, shape `(B, *E)`.
        momentum: The momenta, shape `(B, *E)`.
        steps: How many steps of the position.
        step: The length $h$ of each chain's step, shape `(B,)`.

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
    """Return the chains after one move, and the probability with which it was accepted.

    Args:
        log_density: The log-density, `(B, *E) -> (B,)`, up to a constant.
        x: Where the chains are, shape `(B, *E)`.
        step: The length of each chain's steps, shape `(B,)`.
        steps: How many steps of the position make up the move.
        generator: Source of momenta and of acceptance.

    Returns:
        The next states, shape `(B, *E)`, and the probabilities, shape `(B,)`, which are zero
        where the end has no finite density.
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


def _require_inside(log_density: LogDensity, x: Tensor) -> None:
    bad = (~checked_density(log_density)(x).isfinite()).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"the log-density is not finite in rows {bad[:8]} of {len(x)} where chains are to "
            "start: start them where it is"
        )
