"""The nouns of the library: what a density, a score, a derivative and an objective are.

Everything is structural: any callable or object with the right signature will do, and
nothing has to inherit from anything. In shapes, `B` is the batch, `V` the number of
directions per example and `*E` the event: `(D,)` for tabular data, `(C, H, W)` for images.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from torch import Generator, Tensor, nn

LogDensity = Callable[..., Tensor]
"""`(B, *E), *cond -> (B,)`: an unnormalised log-density, the negative of what others train."""

Score = Callable[..., Tensor]
"""`(B, *E), *cond -> (B, *E)`: the gradient of a log-density with respect to its input."""


class Derivative(Protocol):
    """A way to differentiate along a direction `v`; see `fdsm.derivatives`."""

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, each of shape `(B,)`."""
        ...

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the slopes $v_i^T∇f(x)$, `(V, B)`, and $\sum_i v_i^T∇^2f(x)v_i$, `(B,)`.

        The directions `v` have shape `(V, B, *E)`.
        """
        ...

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$, shape `(B, *E)`, and $v^T ∇s(x) v$, shape `(B,)`."""
        ...


class Projection(Protocol):
    """A distribution $p(v)$ over directions with $E[v v^T] ∝ I$."""

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
    """A training loss: a density or score in, one loss per example out."""

    def __call__(
        self,
        f: Callable[..., Tensor],
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses of the rows of `x`, shape `(B,)`; the caller takes the mean."""
        ...


class AdditiveCoupling(Protocol):
    """An invertible layer that shifts one part of its input by a network of the other.

    Objectives that work layer by layer recognise it by its shape, so that models and
    objectives need not know each other.
    """

    shift: Iterable[nn.Module]
    """The layers of the network `m` in `moved + m(kept)`."""

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the part that is kept and the part that is moved."""
        ...

    def merge(self, kept: Tensor, moved: Tensor) -> Tensor:
        """Undo `split`."""
        ...


def is_additive_coupling(layer: object) -> TypeGuard[AdditiveCoupling]:
    """Return whether a layer has the attributes of an `AdditiveCoupling`.

    `isinstance` does not see submodules such as `shift` from Python 3.12 on.
    """
    return all(hasattr(layer, name) for name in ("shift", "split", "merge"))


@runtime_checkable
class Elementwise(Protocol):
    """A module that acts on each element by itself, and says so."""

    elementwise: Literal[True]


class Step(Protocol):
    """One iteration of training; owns the optimizers and all else that must be resumed."""

    def __call__(self, batch: Tensor, generator: Generator) -> Mapping[str, Tensor]:
        """Train on a batch and return what to log, scalars by name; `"loss"` is among them."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides how training goes on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        ...
