"""What a training step of a deep kernel exponential family costs, in each way to train it.

`python -m benchmarks.dkef` prints the times of a step as they are in Table 1 of the paper: 200
rows of eleven columns, half of them to solve for the coefficients and half for the loss, with 200
inducing points; and of a step with the validation that follows each in the published code. The
reference is SSM as it is usually written, where the derivatives of the kernels are backward
passes of backward passes too; `SSM` has a hand-written jet for these.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor

from fdsm.data import Chain, Dataset
from fdsm.experiments.dkef_uci import TABLE, KernelFamily
from fdsm.models.normal_equations import Kernels, NormalEquations
from fdsm.tensors import dot

from .timing import interleaved, show

USUAL = "SSM, double backward throughout"


@dataclass(frozen=True)
class NestedEquations:
    """The minimiser of SSM, by automatic differentiation of the kernels."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            slopes = along(model.kernels(x), x, v)
            curvatures = along(slopes, x, v)
        scale = x.shape[1] / v.square().sum(1).mean()
        moment = curvatures.sum(0) + dot(model.base_score(x), v) @ slopes
        return NormalEquations(scale * slopes.T @ slopes, scale * moment, len(x))


def along(y: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """Return the slopes of `y` along `v`, shape `(B, M)`, by a backward pass of a backward pass.

    The gradient of $u^T y$ in `x` is linear in `u`, and its product with `v` has the slopes for
    a gradient in `u`.
    """
    u = torch.zeros_like(y, requires_grad=True)
    (gradient,) = torch.autograd.grad(y, x, u, create_graph=True)
    (slopes,) = torch.autograd.grad(dot(gradient, v).sum(), u, create_graph=True)
    return slopes


def rows() -> dict[str, KernelFamily]:
    """Return the rows of the table for eleven columns, after the usual way."""
    name = "RedWine "
    found = {row.name.removeprefix(name): row for row in TABLE if row.name.startswith(name)}
    return {USUAL: replace(found["SSM"], equations=NestedEquations()), **found}


def ready(row: KernelFamily, data: Dataset) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that make a step, and one with the validation after it."""
    torch.manual_seed(0)
    generator = Generator().manual_seed(0)
    model = row.build(data.shape)
    row.start(model, data, generator)
    step = partial(row.step(model, data), data.train[: row.plan.batch], generator)

    def validated() -> None:
        step()
        row.validate(model, data, Generator().manual_seed(1))

    return step, validated


def main(repeats: int = 40) -> None:
    """Time all rows and print the ratios."""
    torch.set_num_threads(1)
    x = torch.randn(1599, 11, generator=Generator().manual_seed(0))
    data = Dataset(x[:1296], x[1296:1440], x[1440:], Chain(()), {})
    functions = {name: ready(row, data) for name, row in rows().items()}
    for i, title in enumerate(("one step", "one step and its validation")):
        times = interleaved({name: pair[i] for name, pair in functions.items()}, repeats)
        for reference in (USUAL, "SSM", "Taylor-SSM"):
            show(f"{title}, against {reference}", times, reference)


if __name__ == "__main__":
    main()
