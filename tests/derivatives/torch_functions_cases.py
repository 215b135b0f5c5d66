"""Models with functions whose derivatives their author wrote."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from .public_models_cases import NO_RULE, ONLY_VALUES, Case, Model, density_of, log_density


class LegendrePolynomial3(Function):
    """From the tutorial "PyTorch: Defining New autograd Functions"."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: Tensor) -> Tensor:
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> Tensor:
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class Exp(Function):
    """From the documentation of `torch.autograd.Function`."""

    @staticmethod
    def forward(ctx: FunctionCtx, i: Tensor) -> Tensor:
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return grad_output * result


class Sinh(Function):
    """From the tutorial "Double Backward with Custom Functions"."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        expx = torch.exp(x)
        expnegx = torch.exp(-x)
        ctx.save_for_backward(expx, expnegx)
        return (expx - expnegx) / 2, expx, expnegx

    @staticmethod
    def backward(ctx: FunctionCtx, out: Tensor, out_exp: Tensor, out_negexp: Tensor) -> Tensor:
        expx, expnegx = ctx.saved_tensors
        return out * (expx + expnegx) / 2 + out_exp * expx - out_negexp * expnegx


class Cube(Function):
    """From the same tutorial, in the form with `setup_context`."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_out * 3 * x**2


class CubeOnce(Function):
    """Its gradient cannot be differentiated, which torch reports for some graphs only."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_out * 3 * x**2


class CubeUnrecorded(Cube):
    """Its backward pass is computed without recording, as that of an adjoint method is."""

    @staticmethod
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            return grad_out * 3 * x**2


class CubeOfData(Cube):
    """Its forward pass goes around autograd."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.data**3


class CubeOfArray(Cube):
    """Its forward pass is computed by numpy."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() ** 3)


class CubeRecorded(Cube):
    """Its forward pass switches gradients on."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        with torch.enable_grad():
            return x**3


class CubeOfCopy(Function):
    """Records its forward pass on a copy of its input, as memory-efficient layers do."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = ctx.x**3
        return ctx.y.detach()

    @staticmethod
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> Tensor:
        return torch.autograd.grad(ctx.y, ctx.x, grad_out, create_graph=True)[0]


class SinhBad(Function):
    """From "Double Backward with Custom Functions": intermediate results taken for constants."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        ctx.expx, ctx.expnegx = torch.exp(x), torch.exp(-x)
        return (ctx.expx - ctx.expnegx) / 2

    @staticmethod
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> Tensor:
        return grad_out * (ctx.expx + ctx.expnegx) / 2


@torch.library.custom_op("fdsm_tests::sin", mutates_args=())
def sine(x: Tensor) -> Tensor:
    return x.sin()


sine.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def custom(function: Callable[[Tensor], Any]) -> Model:
    """Return a log-density with a function on a branch beside one without it."""
    module = nn.Linear(3, 4)

    def f(x: Tensor) -> Tensor:
        h = module(x)
        y = function(h)
        return h + (y[0] if isinstance(y, tuple) else y)

    return density_of(module, 3, f=f)


def custom_last(function: Callable[[Tensor], Tensor]) -> Model:
    """Return a log-density in which nothing but a sum follows a custom function."""
    module = nn.Linear(3, 4)
    return log_density(lambda x: function(module(x)).sum(1), module, torch.randn(3, 3))


FUNCTIONS: dict[str, Case] = {
    "autograd.Function, LegendrePolynomial3": Case(
        lambda: custom(LegendrePolynomial3.apply), **NO_RULE
    ),
    "autograd.Function, Exp": Case(lambda: custom(Exp.apply), **NO_RULE),
    "autograd.Function, Sinh": Case(lambda: custom(Sinh.apply), **NO_RULE),
    "autograd.Function, Cube": Case(lambda: custom(Cube.apply), **NO_RULE),
    "autograd.Function, once differentiable": Case(lambda: custom(CubeOnce.apply), **ONLY_VALUES),
    "autograd.Function, once differentiable, last": Case(
        lambda: custom_last(CubeOnce.apply), **ONLY_VALUES
    ),
    "autograd.Function, unrecorded": Case(lambda: custom(CubeUnrecorded.apply), **ONLY_VALUES),
    "autograd.Function, of .data": Case(lambda: custom(CubeOfData.apply), **NO_RULE),
    "autograd.Function, of an array": Case(lambda: custom(CubeOfArray.apply), **NO_RULE),
    "autograd.Function, recorded": Case(
        lambda: custom(CubeRecorded.apply), taylor=("right", "refused")
    ),
    "autograd.Function, of a copy": Case(
        lambda: custom(CubeOfCopy.apply), autodiff=None, taylor="refused", fallback=None
    ),
    "autograd.Function, SinhBad": Case(
        lambda: custom(SinhBad.apply), autodiff=None, taylor="refused", fallback=None
    ),
    "library.custom_op": Case(lambda: custom(sine), **NO_RULE),
}
