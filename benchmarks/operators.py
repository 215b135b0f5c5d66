"""Operators against nested automatic differentiation, on the benchmark of torch-jet.

`python -m benchmarks.operators` prints time and peak memory of the Laplacian, its estimate from
random directions and the biharmonic operator of a tanh network D-768-768-512-512-1, as ratios to
`torch.func`, measured interleaved on one core. The arguments `laplacian`, `stochastic` and
`biharmonic` select parts. folx is added where it is installed.

Reference:
    Dangel et al. (2025), https://arxiv.org/abs/2505.13644, Section 4.
"""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec

import torch
from torch import Generator, Tensor, nn
from torch.func import grad, hessian, jvp, vmap

import fdsm
from fdsm.benchmarks.memory import peak_bytes
from fdsm.benchmarks.timing import pin_to_one_core

from .timing import interleaved, show

WIDTHS = (768, 768, 512, 512)
DIRECTIONS = 5
FLOOR = "only its matrix products"
Operator = Callable[[nn.Module, Tensor], Tensor]


def network(dimension: int) -> nn.Sequential:
    """Return the network of the benchmark, with outputs of shape `(B,)`."""
    layers: list[nn.Module] = []
    for n_in, n_out in zip((dimension, *WIDTHS), WIDTHS, strict=False):
        layers += [nn.Linear(n_in, n_out), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(WIDTHS[-1], 1), nn.Flatten(0))


def nested_laplacian(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the Laplacian of a function of one vector: forward over reverse mode."""

    def laplacian(x: Tensor) -> Tensor:
        along = lambda v: jvp(grad(f), (x,), (v,))[1] @ v
        return vmap(along)(torch.eye(len(x), dtype=x.dtype)).sum()

    return laplacian


def of_rows(
    operator: Callable[..., Callable[[Tensor], Tensor]], f: nn.Module, x: Tensor
) -> Tensor:
    """Apply an operator of `torch.func` to every row."""
    return vmap(operator(lambda row: f(row[None]).squeeze(0)))(x)


def hessian_trace(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the trace of the Hessian of `torch.func`."""
    return lambda x: hessian(f)(x).trace()


def nested_biharmonic(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the Laplacian of the Laplacian."""
    return nested_laplacian(nested_laplacian(f))


def nested_estimate(f: nn.Module, x: Tensor) -> Tensor:
    """Return the estimate of the Laplacian from random signs."""
    signs = torch.randint(2, (DIRECTIONS, *x.shape), generator=Generator().manual_seed(0))
    gradient = grad(lambda x: f(x).sum())
    along = lambda v: (jvp(gradient, (x,), (v,))[1] * v).sum(1)
    return vmap(along)(2.0 * signs - 1).mean(0)


def matrix_products(f: nn.Sequential, x: Tensor) -> Tensor:
    """Multiply as many rows with the matrices as the Laplacian must: a lower bound of its time."""
    result = x
    for layer in f:
        if isinstance(layer, nn.Linear):
            n = x.shape[1] + 2 if layer.in_features != x.shape[1] else 1
            rows = result.new_ones(n * len(x), layer.in_features)
            result = rows @ layer.weight.T
    return result[: len(x), 0]


def folx_laplacian(f: nn.Sequential, x: Tensor, backward: bool) -> Callable[[], object]:
    """Return a function that computes the forward Laplacian of JAX, compiled."""
    import jax
    from folx import forward_laplacian

    array = lambda t: jax.numpy.asarray(t.detach().numpy())
    linear = [layer for layer in f if isinstance(layer, nn.Linear)]
    parameters = [(array(layer.weight), array(layer.bias)) for layer in linear]

    def log_density(parameters: object, row: object) -> object:
        *hidden, (w, b) = parameters  # type: ignore[misc]
        for weight, bias in hidden:
            row = jax.numpy.tanh(weight @ row + bias)
        return (w @ row + b)[0]

    def total(parameters: object, rows: object) -> object:
        of_row = lambda row: forward_laplacian(partial(log_density, parameters))(row).laplacian
        return jax.vmap(of_row)(rows).sum()

    compiled = jax.jit(jax.grad(total) if backward else total)
    return lambda: jax.block_until_ready(compiled(parameters, array(x)))


def value(operator: Operator, f: nn.Module, x: Tensor) -> Tensor:
    """Return the values without gradients."""
    with torch.no_grad():
        return operator(f, x)


def step(operator: Operator, f: nn.Module, x: Tensor) -> None:
    """Compute the gradient of the sum of the values."""
    f.zero_grad(set_to_none=True)
    operator(f, x).sum().backward()  # type: ignore[no-untyped-call]


def compare(
    title: str, operators: dict[str, Operator], x: Tensor, repeats: int, folx: bool = False
) -> None:
    """Print the ratios of times and of peak memory to those of the first operator.

    Args:
        title: What is compared.
        operators: The ways to compute it, by name.
        x: The points.
        repeats: Number of timed runs.
        folx: Whether to add the forward Laplacian of folx.
    """
    f = network(x.shape[1])
    reference = next(iter(operators))
    for name, run in (("value", value), ("value and backward", step)):
        functions: dict[str, Callable[[], object]] = {
            key: partial(run, operator, f, x) for key, operator in operators.items()
        }
        if run is step:
            functions.pop(FLOOR, None)
        peaks = {key: peak_bytes(function) for key, function in functions.items()}
        if folx:
            functions["folx, jitted"] = folx_laplacian(f, x, run is step)
        show(f"{title}, {name}", interleaved(functions, repeats, warm_up=1), reference)
        for key, peak in peaks.items():
            print(f"  peak memory of {key}: {peak / peaks[reference]:.2f} of {reference}")


def laplacian(repeats: int = 10) -> None:
    """Print the cost of the exact Laplacian."""
    operators: dict[str, Operator] = {
        "vmap(jvp(grad))": partial(of_rows, nested_laplacian),
        "torch.func.hessian": partial(of_rows, hessian_trace),
        "fdsm.laplacian": fdsm.laplacian,
        FLOOR: matrix_products,
    }
    for batch in (32, 256):
        x = torch.rand(batch, 50)
        title = f"Laplacian, D = 50, batch {batch}"
        compare(title, operators, x, max(3, repeats * 32 // batch), find_spec("folx") is not None)


def stochastic(repeats: int = 10) -> None:
    """Print the cost of the Laplacian from random directions."""
    operators: dict[str, Operator] = {
        "vmap(jvp(grad))": nested_estimate,
        "fdsm.laplacian": partial(fdsm.laplacian, directions=DIRECTIONS),
    }
    compare(
        f"Laplacian from {DIRECTIONS} directions, D = 50, batch 256",
        operators,
        torch.rand(256, 50),
        repeats,
    )


def biharmonic(repeats: int = 3) -> None:
    """Print the cost of the biharmonic operator."""
    operators: dict[str, Operator] = {
        "Laplacian of the Laplacian": partial(of_rows, nested_biharmonic),
        "fdsm.biharmonic": fdsm.biharmonic,
        f"the same, {DIRECTIONS} directions": partial(fdsm.biharmonic, directions=DIRECTIONS),
    }
    compare("biharmonic, D = 5, batch 256", operators, torch.rand(256, 5), repeats)


PARTS = {"laplacian": laplacian, "stochastic": stochastic, "biharmonic": biharmonic}


def main(parts: Iterable[str]) -> None:
    """Print the given parts, or all."""
    pin_to_one_core()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for part in parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
