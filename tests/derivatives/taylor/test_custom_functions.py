"""Parts of a model that autograd differentiates in its own way are refused.

Taylor would differentiate the values of a custom `autograd.Function`, and autograd its `backward`.
The reference is Autodiff, to which Taylor falls back.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.utils.checkpoint import checkpoint

from fdsm.derivatives import Autodiff, MissingRule, Taylor
from fdsm.evaluation import sm_losses

from .agreement import assert_agrees

Forward = Callable[..., Any]
MODES = [nullcontext, torch.no_grad, torch.inference_mode]


def custom(forward: Forward, **members: object) -> Callable[[Tensor], Any]:
    """Return a custom function whose gradient is passed through unchanged."""
    backward = lambda ctx, grad: grad
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Custom", (torch.autograd.Function,), body).apply  # type: ignore[attr-defined, no-any-return]


def with_gradients_enabled(ctx: object, x: Tensor) -> Tensor:
    with torch.enable_grad():
        return 2 * x


def changed_in_place(ctx: FunctionCtx, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


def saved(ctx: FunctionCtx, x: Tensor) -> Tensor:
    y = x.round()
    ctx.save_for_backward(x, y)
    return y


SEPARATE = {"setup_context": staticmethod(lambda ctx, inputs, output: None)}
CUSTOM: dict[str, Callable[[Tensor], Any]] = {
    "straight through": custom(lambda ctx, x: x.round()),
    "doubled": custom(lambda ctx, x: 2 * x),
    "identity": custom(lambda ctx, x: x),
    "view": custom(lambda ctx, x: x.view_as(x)),
    "detached": custom(lambda ctx, x: x.detach()),
    "data": custom(lambda ctx, x: x.data * 2),
    "comparison": custom(lambda ctx, x: (x > 0).to(x.dtype)),
    "constant": custom(lambda ctx, x: torch.ones(2, 3)),
    "item": custom(lambda ctx, x: torch.full((2, 3), x[0, 0].item())),
    "gradients enabled": custom(with_gradients_enabled),
    "in place": lambda x: custom(changed_in_place)(x * 1),
    "saved": custom(saved),
    "once differentiable": custom(
        lambda ctx, x: x.round(), backward=staticmethod(once_differentiable(lambda ctx, g: g))
    ),
    "setup_context": custom(lambda x: x.round(), **SEPARATE),
    "setup_context, doubled": custom(lambda x: 2 * x, **SEPARATE),
    "vmap": custom(lambda x: x.round(), **SEPARATE, generate_vmap_rule=True),
    "jvp": custom(lambda ctx, x: x.round(), jvp=staticmethod(lambda ctx, tangent: tangent)),
    "several outputs": lambda x: custom(
        lambda ctx, x: (x.round(), x.floor()), backward=staticmethod(lambda ctx, g, h: g + h)
    )(x)[1],
    "processed": lambda x: custom(lambda ctx, x: x.round())(x).sin().sum(1, keepdim=True),
    "hidden layer": lambda x: custom(lambda ctx, x: x.sign())(x.sin() * x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", CUSTOM.values(), ids=CUSTOM)
def test_custom_functions_are_refused(
    function: Callable[[Tensor], Any], mode: Callable[[], AbstractContextManager[None]]
) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    with mode(), pytest.raises(MissingRule, match=r"custom `autograd\.Function`"):
        Taylor().jet(lambda x: (function(x) * x).sum(1), x, v, 2)


@pytest.mark.parametrize("name", [name for name in CUSTOM if "once" not in name])
def test_the_fallback_differentiates_custom_functions(name: str) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    f = lambda x: (CUSTOM[name](x) * x).sum(1)
    safe = Taylor(fallback=Autodiff())
    torch.testing.assert_close(safe.jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


@pytest.mark.parametrize("combined", [torch.mul, torch.add, torch.maximum, torch.atan2])
def test_the_output_of_a_custom_function_is_refused_wherever_it_meets_a_jet(
    combined: Callable[[Tensor, Tensor], Tensor],
) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    for f in (
        lambda x: combined(CUSTOM["comparison"](x), x.sin()),
        lambda x: combined(x.sin(), other=CUSTOM["comparison"](x)),
        lambda x: torch.stack([x, CUSTOM["comparison"](x)]).prod(0),
        lambda x: torch.where(x > 0, CUSTOM["comparison"](x), x),
    ):
        with pytest.raises(MissingRule, match=r"custom `autograd\.Function`"):
            Taylor().jet(lambda x, f=f: f(x).sum(1), x, v, 1)


@pytest.mark.parametrize(
    "function",
    [
        custom(lambda ctx, w: 2 * w, backward=staticmethod(lambda ctx, grad: 3 * grad)),
        lambda w: custom(lambda ctx, w: w.round())(w.sin()),
    ],
)
def test_custom_functions_of_parameters_are_allowed(function: Callable[[Tensor], Tensor]) -> None:
    w = torch.rand(3)
    assert_agrees(lambda x: (x.sin() * function(w)).sum(1), torch.rand(2, 3), w)


def non_differentiable(ctx: FunctionCtx, x: Tensor) -> Tensor:
    y = x.floor()
    ctx.mark_non_differentiable(y)
    return y


def test_outputs_that_autograd_treats_as_constants_are_constants() -> None:
    """Autograd does not differentiate them either."""
    marked, listed = custom(non_differentiable), custom(lambda ctx, xs: xs[0].floor())
    x = torch.rand(2, 3) + 1
    assert_agrees(lambda x: (marked(x) * x.sin()).sum(1), x)
    assert_agrees(lambda x: (listed([x]) * x.sin()).sum(1), x)  # type: ignore[arg-type]


@torch.library.custom_op("fdsm_tests::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return 2 * x.detach()


doubled.register_autograd(lambda ctx, grad: 3 * grad)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operator", [doubled, torch.ops.fdsm_tests.doubled.default])
def test_custom_operators_are_refused(
    operator: Callable[[Tensor], Tensor], mode: Callable[[], AbstractContextManager[None]]
) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    f = lambda x: (operator(x) * x).sum(1)
    with mode(), pytest.raises(MissingRule, match=r"no rule for .*doubled"):
        Taylor().jet(f, x, v, 1)
    safe = Taylor(fallback=Autodiff())
    torch.testing.assert_close(safe.jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))


def stopped(x: Tensor) -> Tensor:
    with torch.no_grad():
        w = x.exp()
    return (w * x).sum(1)


def checkpointed(x: Tensor) -> Tensor:
    y: Tensor = checkpoint(torch.exp, x * 1, use_reentrant=True)
    return (y * x).sum(1)


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", [stopped, checkpointed, torch.no_grad()(lambda x: x.exp().sum(1))])
def test_switching_gradients_off_inside_the_model_is_refused(
    f: Callable[[Tensor], Tensor], mode: Callable[[], AbstractContextManager[None]]
) -> None:
    """The same model must not be refused in training and evaluated to a wrong number."""
    message = (
        r"switched off inside the model.*`torch\.no_grad\(\)`.*custom `autograd\.Function`.*"
        r"`use_reentrant=True`.*`\.detach\(\)`.*`use_reentrant=False`.*fallback=Autodiff"
    )
    x, v = torch.rand(4, 3), torch.ones(4, 3)
    with mode(), pytest.raises(MissingRule, match=message):
        Taylor().jet(f, x, v, 2)


@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad])
def test_the_fallback_treats_what_is_switched_off_as_a_constant(
    mode: Callable[[], AbstractContextManager[None]],
) -> None:
    x, v = torch.rand(4, 3), torch.ones(4, 3)
    with mode():
        safe = Taylor(fallback=Autodiff()).jet(stopped, x, v, 2)
    truth = Autodiff().jet(lambda x: (x.detach().exp() * x).sum(1), x, v, 2)
    torch.testing.assert_close(safe, tuple(term.detach() for term in truth))
    torch.testing.assert_close(sm_losses(stopped, x), sm_losses(stopped, x, derivative=Autodiff()))


def test_comparisons_are_allowed_where_gradients_are_off() -> None:
    def clipped(x: Tensor) -> Tensor:
        with torch.no_grad():
            large = bool((x > 10).any())
        return x.sum(1) if large else x.square().sum(1)

    assert_agrees(clipped, torch.ones(2, 3))
