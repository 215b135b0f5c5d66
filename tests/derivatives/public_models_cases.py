"""Types of the table of public models, and helpers that build its entries."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

Outcome = Literal["right", "refused", "warned"]
Expected = Outcome | tuple[Outcome, ...] | None
"""Several outcomes where versions of torch differ. None if the result depends on a backward pass
that the author of the model wrote and that cannot be differentiated, which nothing shows."""


@dataclass
class Model:
    """A log-density or a score, with its parameters and the data to evaluate it at.

    Attributes:
        f: From `(B, *E)` to `(B,)`, or to `(B, *E)` if it is a score.
        parameters: Tensors that `f` depends on.
        x: The data, shape `(B, *E)`.
        cond: Further arguments of `f`, with a row for each example.
        score: Whether `f` is a score.
        buffers: Tensors that a call changes and that its result depends on.
        precise: The same model in float64 throughout, with its parameters in the same order, if
            `f` computes in lower precision inside.
    """

    f: Callable[..., Tensor]
    parameters: list[Tensor]
    x: Tensor
    cond: tuple[Tensor, ...] = ()
    score: bool = False
    buffers: tuple[Tensor, ...] = ()
    precise: "Model | None" = None
    initial: tuple[Tensor, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.initial = tuple(b.clone() for b in self.buffers)

    def reset(self) -> None:
        """Seed torch and restore the buffers, so that all calls see the same function."""
        torch.manual_seed(2)
        for buffer, initial in zip(self.buffers, self.initial, strict=True):
            buffer.copy_(initial)

    def __call__(self, x: Tensor) -> Tensor:
        """Return a plain evaluation."""
        self.reset()
        return self.f(x, *self.cond)


@dataclass(frozen=True)
class Case:
    """A public model and the expected outcome of each engine.

    Attributes:
        make: Builds the model; called with a fixed seed and float64 as the default dtype.
        fd: Outcome of `FiniteDifference()`.
        autodiff: Outcome of `Autodiff()`.
        taylor: Outcome of `Taylor()`.
        fallback: Outcome of `Taylor(fallback=Autodiff())`.
        rtol: Largest relative error of the exact engines that counts as right.
        fd_rtol: The same for `FiniteDifference()`.
        step: Length of the directions of `FiniteDifference()`.
        seed: Seed of the model and the data. It is chosen so that no kink is near the data.
    """

    make: Callable[[], Model]
    fd: Expected = "right"
    autodiff: Expected = "right"
    taylor: Expected = "right"
    fallback: Expected = "right"
    rtol: float = 1e-5
    fd_rtol: float = 1e-3
    step: float = 1e-3
    seed: int = 0


REFUSED: dict[str, Any] = dict.fromkeys(("fd", "autodiff", "taylor", "fallback"), "refused")
"""For models whose examples depend on each other."""
NO_RULE: dict[str, Any] = {"taylor": "refused"}
NO_DOUBLE_BACKWARD: dict[str, Any] = {"autodiff": "refused"}
ONLY_VALUES: dict[str, Any] = {"autodiff": "refused", "taylor": "refused", "fallback": "refused"}
"""For models whose derivatives cannot be seen from inside."""
KINK: dict[str, Any] = {"taylor": "warned", "fallback": "warned"}
RANDOM: dict[str, Any] = {"fd": "refused"}


def density_of(
    module: nn.Module,
    *shape: int,
    f: Callable[..., Tensor] | None = None,
    cond: tuple[Tensor, ...] = (),
    buffers: tuple[Tensor, ...] = (),
) -> Model:
    r"""Return the log-density $-\sum_i \mathrm{softplus}(y_i)$ of the outputs of a module.

    Softplus gives a curvature to linear modules.

    Args:
        module: The module; its parameters are moved away from their initial values.
        shape: Of an example; there are three normal ones.
        f: Calls the module, by default `module(x, *cond)`.
        cond: Further arguments of the log-density.
        buffers: Buffers that a call changes.
    """
    call = f or module

    def density(x: Tensor, *cond: Tensor) -> Tensor:
        return -functional.softplus(call(x, *cond)).flatten(1).sum(1)

    return Model(density, perturbed(module), torch.randn(3, *shape), cond, buffers=buffers)


def log_density(
    f: Callable[..., Tensor], parameters: nn.Module | Iterable[Tensor], x: Tensor, *cond: Tensor
) -> Model:
    """Return a model whose function is a log-density already."""
    if isinstance(parameters, nn.Module):
        return Model(f, perturbed(parameters), x, cond)
    return Model(f, [p.requires_grad_() for p in parameters], x, cond)


def score(f: Callable[..., Tensor], module: nn.Module, x: Tensor) -> Model:
    """Return a model whose function is a score."""
    return Model(f, perturbed(module), x, score=True)


def perturbed(module: nn.Module) -> list[Tensor]:
    """Move the parameters of a module, since many start at zero or one, and return them."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    with torch.no_grad():
        for p in parameters:
            p.add_(0.1 * torch.randn_like(p))
    return list(parameters)


def mlp(activation: nn.Module | None = None, width: int = 5) -> nn.Module:
    """Return a perceptron of shape `(B, 3)` to `(B,)`."""
    activation = activation or nn.Softplus()
    return nn.Sequential(nn.Linear(3, width), activation, nn.Linear(width, 1), nn.Flatten(0))


def package(name: str) -> ModuleType:
    """Return a package, or skip the test without it."""
    found: ModuleType = pytest.importorskip(name)
    return found
