"""The interface of a transform, and a chain of transforms."""

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Generator, Tensor


class Transform(Protocol):
    """A map from stored rows `(N, *E)` to model inputs `(N, *E')`."""

    def fit(self, x: Tensor) -> "Transform":
        """Return the transform with the parameters that it learns from stored training rows."""
        ...

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return model inputs for training, with random noise or augmentation."""
        ...

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model inputs for evaluation, without randomness."""
        ...

    def inverse(self, y: Tensor) -> Tensor:
        """Map model inputs, for example samples, to the space of the data, as floats."""
        ...

    def log_det(self, x: Tensor) -> Tensor:
        r"""Return $\log|\det ∂T/∂x|$ of `deterministic` at `x`, shape `(N,)`.

        It relates the densities of the two spaces:
        $\log p_{data}(x) = \log p(T x) + \log|\det ∂T/∂x|$.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the learned parameters."""
        ...

    def restore(self, state: dict[str, Tensor]) -> "Transform":
        """Return the transform with learned parameters from `state()`."""
        ...


def as_float(x: Tensor) -> Tensor:
    """Return `x` as floating-point numbers. Integers are converted to torch's default dtype."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


@dataclass(frozen=True)
class Identity:
    """The identity, and the base class of transforms that do not learn from values.

    A transform of your own may inherit from it and override some methods. In a `Chain` it may be
    fitted to a single row, so `fit` may use the shape of the rows but not their values.
    """

    def fit(self, x: Tensor) -> Self:
        """Return the transform itself."""
        return self

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return `deterministic(x)`."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x

    def inverse(self, y: Tensor) -> Tensor:
        """Return `y`."""
        return y

    def log_det(self, x: Tensor) -> Tensor:
        """Return zeros, shape `(N,)`."""
        return as_float(x).new_zeros(len(x))

    def state(self) -> dict[str, Tensor]:
        """Return an empty dictionary."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return the transform itself."""
        return self


@dataclass(frozen=True)
class Chain:
    """Several transforms, applied one after another. An empty chain is the identity.

    Attributes:
        steps: The transforms, in the order of application. Each is fitted to the output of the
            fitted transforms before it.

    Example:
        >>> from paper.data import Affine, ToFloat
        >>> Chain((ToFloat(), Affine(2.0, -1.0))).deterministic(torch.tensor([[0, 255]]))
        tensor([[-1.,  1.]])
    """

    steps: tuple[Transform, ...] = ()

    def fit(self, x: Tensor) -> "Chain":
        """Return the chain with every step fitted."""
        learning = [i for i, step in enumerate(self.steps) if not isinstance(step, Identity)]
        fitted: list[Transform] = []
        for i, step in enumerate(self.steps):
            # After the last step that learns from values only shapes matter, and all rows of a
            # large set of images as floats would not fit into memory.
            x = x if learning and i <= learning[-1] else x[:1]
            fitted.append(step.fit(x))
            x = fitted[-1].deterministic(x)
        return Chain(tuple(fitted))

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return model inputs for training."""
        for step in self.steps:
            x = step.sample(x, generator)
        return x

    def deterministic(self, x: Tensor) -> Tensor:
        """Return model inputs for evaluation."""
        for step in self.steps:
            x = step.deterministic(x)
        return x

    def inverse(self, y: Tensor) -> Tensor:
        """Apply the inverses in reverse order."""
        for step in reversed(self.steps):
            y = step.inverse(y)
        return y

    def log_det(self, x: Tensor) -> Tensor:
        """Return the sum over the steps, each at its own input, shape `(N,)`."""
        total = as_float(x).new_zeros(len(x))
        for step in self.steps:
            total = total + step.log_det(x)
            x = step.deterministic(x)
        return total

    def state(self) -> dict[str, Tensor]:
        """Return the states of the steps. Key `"0.mean"` is `"mean"` of step 0."""
        return {
            f"{i}.{key}": value
            for i, step in enumerate(self.steps)
            for key, value in step.state().items()
        }

    def restore(self, state: dict[str, Tensor]) -> "Chain":
        """Return the chain with the states of its steps."""
        steps = []
        for i, step in enumerate(self.steps):
            prefix = f"{i}."
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            steps.append(step.restore(own))
        return Chain(tuple(steps))


def require_state(name: str, state: dict[str, Tensor], *keys: str) -> list[Tensor]:
    """Return entries of a state.

    Args:
        name: Name of the transform, for the error.
        state: State of the transform.
        keys: Names of the entries.

    Returns:
        The tensors, in the order of the keys.

    Raises:
        ValueError: If an entry is missing.
    """
    missing = [key for key in keys if key not in state]
    if missing:
        raise ValueError(f"the state of {name} lacks {missing}; it has {sorted(state)}")
    return [state[key] for key in keys]
