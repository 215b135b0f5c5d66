"""What a transform is, and how to put several in a row."""

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Generator, Tensor


class Transform(Protocol):
    """From stored rows `(N, *E)` to the rows `(N, *E')` that a model sees."""

    def fit(self, x: Tensor) -> "Transform":
        """Return this transform with what it learns from stored training rows."""
        ...

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return model rows to train on, with all that is random."""
        ...

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model rows to evaluate on, with nothing random."""
        ...

    def inverse(self, y: Tensor) -> Tensor:
        """Return model rows, say samples, in the space of the data, as floats."""
        ...

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $\log|\det ∂T/∂x|$ of `fixed` at `x`, shape `(N,)`.

        It makes densities comparable: $\log p_{data}(x) = \log p(T x) + \log|\det ∂T/∂x|$.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what `fit` learnt."""
        ...

    def restore(self, state: dict[str, Tensor]) -> "Transform":
        """Return this transform with what was learnt before."""
        ...


def real(x: Tensor) -> Tensor:
    """Return `x` as floating-point numbers; bytes get torch's default dtype."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


class Plain:
    """What most transforms share: nothing to learn from values, nothing random, no change of size.

    A transform of your own may inherit from this and override what it does differently.
    """

    def fit(self, x: Tensor) -> Self:
        """Return this transform; at most the shape of `x` is of interest."""
        return self

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return model rows to train on; the same as `fixed`."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model rows to evaluate on; the rows as they are."""
        return x

    def inverse(self, y: Tensor) -> Tensor:
        """Return the rows in the space of the data; as they are."""
        return y

    def log_det(self, x: Tensor) -> Tensor:
        """Return zeros, shape `(N,)`."""
        return real(x).new_zeros(len(x))

    def state(self) -> dict[str, Tensor]:
        """Return nothing: nothing was learnt."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return this transform: there is nothing to restore."""
        return self


@dataclass(frozen=True)
class Chain:
    """Transforms one after the other; none at all leaves the rows as they are.

    Attributes:
        steps: The transforms, the first applied first. Each is fitted to what the fitted ones
            before it return.

    Example:
        >>> from fdsm.data import Affine, ToFloat
        >>> Chain((ToFloat(), Affine(2.0, -1.0))).deterministic(torch.tensor([[0, 255]]))
        tensor([[-1.,  1.]])
    """

    steps: tuple[Transform, ...] = ()

    def fit(self, x: Tensor) -> "Chain":
        """Return the chain with every step fitted."""
        learning = [i for i, step in enumerate(self.steps) if not isinstance(step, Plain)]
        fitted: list[Transform] = []
        for i, step in enumerate(self.steps):
            # Behind the last step that learns from values only shapes matter, and all rows of
            # a large set of images as floats would not fit into memory.
            x = x if learning and i <= learning[-1] else x[:1]
            fitted.append(step.fit(x))
            x = fitted[-1].deterministic(x)
        return Chain(tuple(fitted))

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return model rows to train on, with all that is random."""
        for step in self.steps:
            x = step.sample(x, generator)
        return x

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model rows to evaluate on, with nothing random."""
        for step in self.steps:
            x = step.deterministic(x)
        return x

    def inverse(self, y: Tensor) -> Tensor:
        """Return model rows in the space of the data."""
        for step in reversed(self.steps):
            y = step.inverse(y)
        return y

    def log_det(self, x: Tensor) -> Tensor:
        """Return the sum over the steps, each at what it is given, shape `(N,)`."""
        total = real(x).new_zeros(len(x))
        for step in self.steps:
            total = total + step.log_det(x)
            x = step.deterministic(x)
        return total

    def state(self) -> dict[str, Tensor]:
        """Return what the steps learnt, `"0.mean"` for what step 0 calls `"mean"`."""
        return {
            f"{i}.{key}": value
            for i, step in enumerate(self.steps)
            for key, value in step.state().items()
        }

    def restore(self, state: dict[str, Tensor]) -> "Chain":
        """Return the chain with what its steps learnt before."""
        return Chain(tuple(step.restore(_of_step(i, state)) for i, step in enumerate(self.steps)))


def _of_step(i: int, state: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{i}."
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def restored(name: str, state: dict[str, Tensor], *keys: str) -> list[Tensor]:
    """Return the entries of a state.

    Args:
        name: The transform that asks, for the error.
        state: What it learnt.
        keys: What it needs.

    Returns:
        The tensors, in the order of the keys.

    Raises:
        ValueError: If one is missing.
    """
    missing = [key for key in keys if key not in state]
    if missing:
        raise ValueError(f"the state of {name} lacks {missing}: it has {sorted(state)}")
    return [state[key] for key in keys]
