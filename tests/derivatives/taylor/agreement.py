"""The reference for every rule: Taylor agrees with Autodiff, in values and in gradients.

By default functions are compared along one direction up to the curvature, and along several. With
the environment variable FDSM_EVERY_ORDER, as in `make nightly`, also to the first and the fourth
order.
"""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest
import torch
from packaging.version import Version
from torch import Tensor

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Taylor, algebra
from fdsm.derivatives.taylor.registry import _RULES
from fdsm.typing import Derivative

EVERY_ORDER = "FDSM_EVERY_ORDER" in os.environ
OLD_TORCH = Version(torch.__version__) < Version("2.12")


def assert_agrees(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    *parameters: Tensor,
    orders: Sequence[int] = (1, 2) if EVERY_ORDER else (2,),
    directions: Sequence[int] = (1, 3) if EVERY_ORDER else (3,),
    rtol: float = 1e-10,
) -> None:
    """Check all derivatives of a function, and their gradients, against Autodiff.

    Args:
        f: From `(B, *E)` to `(B,)`.
        x: Where, shape `(B, *E)`; in double precision unless `rtol` is large.
        parameters: Tensors that `f` depends on, which are made to require a gradient; `x` itself
            may be among them, which needs one more derivative.
        orders: Of the jets to compare.
        directions: How many at a time, in `sliced`.
        rtol: The largest error, relative to the largest element or to one.
    """
    generator = torch.Generator().manual_seed(7)
    for parameter in parameters:
        parameter.requires_grad_()
    several = torch.randn(max(directions, default=1), *x.shape, generator=generator, dtype=x.dtype)
    for order in orders:
        _compare(lambda engine, k=order: engine.jet(f, x, several[0], k), parameters, rtol)
    for count in directions:
        _compare(lambda engine, n=count: engine.sliced(f, x, several[:n]), parameters, rtol)
    if EVERY_ORDER and max(directions, default=1) > 1:
        _compare_fourth_orders(f, x, several[0], parameters, rtol)


def _compare(
    terms: Callable[[Derivative], tuple[Tensor, ...]], parameters: tuple[Tensor, ...], rtol: float
) -> None:
    """Check the terms that an engine makes, and the gradients of a random combination of them."""
    found = terms(Taylor())
    try:
        truth = terms(Autodiff())
    except RuntimeError as error:
        if not OLD_TORCH or "is not implemented" not in str(error):
            raise
        pytest.skip(f"this torch has no reference: {error}")  # aminmax and grid_sample
    weights = [_weights(term) for term in truth]
    _assert_close(found, truth, rtol, "term")
    if parameters:
        gradients = [_gradients(result, weights, parameters) for result in (found, truth)]
        _assert_close(*gradients, rtol, "gradient of parameter")


def _compare_fourth_orders(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    v: Tensor,
    parameters: tuple[Tensor, ...],
    rtol: float,
) -> None:
    """Check series of order four along two parallel directions against one direction.

    The sum of $(v_i^T∇)² (v_j^T∇)² f$ over the directions $0.6 v$ and $0.8 v$ is $(v^T∇)^4 f$.
    """
    found = (Taylor().biharmonic(f, x, torch.stack([0.6 * v, 0.8 * v])),)
    truth = (Taylor().jet(f, x, v, 4)[4],)
    weights = [_weights(truth[0])]
    _assert_close(found, truth, 100 * rtol, "fourth order")
    if parameters:
        gradients = [_gradients(result, weights, parameters) for result in (found, truth)]
        _assert_close(*gradients, 1000 * rtol, "gradient of the fourth order in parameter")


def _weights(term: Tensor) -> Tensor:
    """Return random weights that give every term a say, however large others are."""
    generator = torch.Generator().manual_seed(11)
    weights = torch.randn(term.shape, generator=generator, dtype=term.dtype)
    return weights / term.detach().abs().max().clamp(min=1)


def _gradients(
    terms: tuple[Tensor, ...], weights: list[Tensor], parameters: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    combination = torch.stack([(w * y).sum() for w, y in zip(weights, terms, strict=True)]).sum()
    if not combination.requires_grad:
        return tuple(torch.zeros_like(parameter) for parameter in parameters)
    return torch.autograd.grad(combination, parameters, materialize_grads=True)


def _assert_close(
    found: tuple[Tensor, ...], truth: tuple[Tensor, ...], rtol: float, what: str
) -> None:
    for k, (a, b) in enumerate(zip(found, truth, strict=True)):
        torch.testing.assert_close(
            a,
            b,
            rtol=rtol,
            atol=rtol * max(1.0, b.detach().abs().max().item()) if b.numel() else 0.0,
            msg=lambda message, k=k: f"{what} {k}: {message}",
        )


def assert_rule(
    f: Callable[[Tensor], Tensor | Sequence[Tensor]],
    x: Tensor,
    *parameters: Tensor,
    rtol: float = 1e-10,
) -> None:
    """Check a function from one shape to any other, of series of degree two.

    Of the second order, and along two directions. With every order, also of series of degree one.
    The function must leave its argument alone.

    Args:
        f: The function, which may return several tensors.
        x: Where, of any shape.
        parameters: Tensors that `f` depends on; `x` is among them in any case.
        rtol: As in `assert_agrees`.
    """
    start, fixed = x.detach().clone()[None], x.detach().clone()[None]
    center = fixed + torch.linspace(0.4, 0.8, x.numel(), dtype=x.dtype).view_as(fixed)
    curve = lambda x: 0.25 * (x - center).square()
    curved = lambda x: x + (curve(x) - curve(fixed))
    straight = lambda x: _combined(_unchanging(f, x[0]))[None]
    bent = lambda x: _combined(_unchanging(f, curved(x)[0]))[None]
    if EVERY_ORDER:
        assert_agrees(straight, start, start, *parameters, orders=(1,), directions=(), rtol=rtol)
    assert_agrees(bent, start, start, *parameters, orders=(2,), directions=(2,), rtol=rtol)


def _unchanging(
    f: Callable[[Tensor], Tensor | Sequence[Tensor]], x: Tensor
) -> Tensor | Sequence[Tensor]:
    """Return the result of a function, and check that its argument is unchanged."""
    memory = getattr(x, "coefficients", x)
    version = memory._version
    result = f(x)
    assert memory._version == version
    return result


def _combined(results: Tensor | Sequence[Tensor]) -> Tensor:
    """Return a random linear combination of all elements of tensors."""
    tensors = (results,) if isinstance(results, Tensor) else results
    generator = torch.Generator().manual_seed(3)
    weights = [torch.randn(y.shape, generator=generator) for y in tensors]
    sums = [(w.to(y.dtype) * y).sum() for w, y in zip(weights, tensors, strict=True)]
    return torch.stack([y.double() for y in sums]).sum()


def names_of_rules(module: ModuleType) -> set[str]:
    """Return the names of all functions of torch that have a rule in a module."""
    return {
        _name(function) for function, rule in _RULES.items() if is_from(module, function, rule)
    }


def is_from(module: ModuleType, function: object, rule: Callable[..., object]) -> bool:
    """Return whether the rule of a function is registered in a module.

    It is if the module defines the rule or a function in its closure. A rule that was built by
    `fdsm.derivatives.taylor.algebra` alone must be named in the source of the module.
    """
    parts = [cell.cell_contents for cell in rule.__closure__ or ()]
    if any(getattr(f, "__module__", None) == module.__name__ for f in (rule, *parts)):
        return True
    if rule.__module__ != algebra.__name__:
        return False
    name, source = _name(function), inspect.getsource(module)
    pattern = re.sub(r"\d", "{_n}", name)
    return any(
        text in source for text in (f'"{name}"', f"rule(functional.{name})", f'"{pattern}"')
    )


def _name(function: object) -> str:
    name = getattr(function, "__name__", str(function))
    return function.__self__.__name__ if name == "__get__" else name
