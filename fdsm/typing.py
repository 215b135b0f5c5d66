"""Types and protocols: log-densities, scores, derivatives, projections, objectives and steps.

All protocols are structural. Any callable or object with the right signature can be used, without
inheritance. In shapes, `B` is the batch size, `V` the number of directions per example and `*E`
the event shape: `(D,)` for tabular data, `(C, H, W)` for images.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from torch import Generator, Tensor, nn

__all__ = [
    "AdditiveCoupling",
    "Condition",
    "DensityFunction",
    "Derivative",
    "Elementwise",
    "Function",
    "HasLogProb",
    "LogDensity",
    "NoiseLevels",
    "NormalizedDensity",
    "Objective",
    "Projection",
    "Score",
    "Step",
    "is_exact",
    "nests_gradients",
]


class HasLogProb(Protocol):
    """An object with a log-density, such as a distribution of `torch.distributions` or zuko."""

    def log_prob(self, x: Tensor, /) -> Tensor:
        """Return the log-density at `x`, shape `(B, *E) -> (B,)`."""
        ...


class NormalizedDensity(HasLogProb, Protocol):
    """A density with an integral of one that can be sampled: a proposal, or the base of a flow.

    Functions that take one also take a distribution of `torch.distributions` or zuko, whose
    `sample` has another signature.
    """

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        ...


DensityFunction = Callable[..., Tensor]
"""`(B, *E), *cond -> (B,)`: a function that returns an unnormalized log-density."""

LogDensity = DensityFunction | HasLogProb
"""An unnormalized log-density (not an energy): a function, or an object with `log_prob`."""

Function = LogDensity
"""`(B, *E), *cond -> (B, *O)`: any function of a batch, such as a field or a solution."""

Condition = Tensor | float
"""A further argument of a function: a tensor with one row per example, or a number for all."""

Score = Callable[..., Tensor]
"""`(B, *E), *cond -> (B, *E)`: the gradient of a log-density with respect to its input."""


class Derivative(Protocol):
    r"""A derivative engine: it differentiates along directions `v`; see `fdsm.derivatives`.

    An engine may have more, where it differs from others:

    - `is_exact`: whether it makes no error but rounding, from one call of the model. Default:
      false, which means that it compares values at several points.
    - `nests_gradients`: whether it takes gradients itself. Chunks of its work are then not
      computed again in the backward pass, since each of the gradients would. Default: false.
    - `biharmonic(f, x, v, *cond)`: returns $\sum_{ij} (v_i^T∇)² (v_j^T∇)² f(x)$, `(B, *O)`, which
      the operator of this name uses.
    - `jets(f, x, v, orders, *cond)`: returns a jet for each direction, `(V, B, *E)`, each of its
      own order, which the operator `partials` uses.
    - `values(f, x, v, nodes, *cond)`: returns the values at `x + node * v`, `(n, B)`, which the
      objectives without derivatives use.
    """

    def jet(
        self, f: Function, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, each of the shape of `f(x)`, `(B, *O)`."""
        ...

    def sliced(self, f: Function, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the slopes $v_i^T∇f$, `(V, B, *O)`, and $\sum_i v_i^T∇^2f v_i$, `(B, *O)`.

        The directions `v` have shape `(V, B, *E)`.
        """
        ...

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$, shape `(B, *E)`, and $v^T ∇s(x) v$, shape `(B,)`."""
        ...


def is_exact(derivative: Derivative) -> bool:
    """Return whether an engine makes no error but rounding; see `Derivative`."""
    return bool(getattr(derivative, "is_exact", False))


def nests_gradients(derivative: Derivative) -> bool:
    """Return whether an engine takes gradients itself; see `Derivative`."""
    return bool(getattr(derivative, "nests_gradients", False))


class Projection(Protocol):
    """A distribution $p(v)$ of directions with $E[v v^T] ∝ I$."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one direction per row of `x`, with the shape, dtype and device of `x`."""
        ...

    def second_moment(self, x: Tensor) -> float:
        """Return $C_v = E‖v‖²$ for events shaped like those of `x`."""
        ...


class NoiseLevels(Protocol):
    """A distribution of the noise level $σ$; see `fdsm.noise`."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one $σ$ per row of `x`, shape `(B,)`."""
        ...


class Objective(Protocol):
    """A training loss of a log-density or a score."""

    def __call__(
        self,
        f: Callable[..., Tensor],
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the loss of `f`, a log-density or a score, for each row of `x`, shape `(B,)`."""
        ...


class AdditiveCoupling(Protocol):
    """An invertible layer that adds a network of one part of its input to the other part.

    The layer-wise objectives recognize this protocol, so that models and objectives do not import
    each other.
    """

    shift: Iterable[nn.Module]
    """The layers of the network $m$ in `shifted + m(kept)`."""

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the part that is kept and the part that is shifted."""
        ...

    def merge(self, kept: Tensor, shifted: Tensor) -> Tensor:
        """Invert `split`."""
        ...


def is_additive_coupling(layer: object) -> TypeGuard[AdditiveCoupling]:
    """Return whether a layer has the attributes of an `AdditiveCoupling`.

    Since Python 3.12 `isinstance` does not find submodules such as `shift`.
    """
    return all(hasattr(layer, name) for name in ("shift", "split", "merge"))


@runtime_checkable
class Elementwise(Protocol):
    """A module that acts on each element separately and declares it."""

    elementwise: Literal[True]


class Step(Protocol):
    """One training iteration. It owns the optimizers and their state."""

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Train on a batch. Return new scalars by name, including `"loss"`, to be read later."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume training."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        ...
