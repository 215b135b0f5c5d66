"""The exact score-matching loss with the forward Laplacian of folx."""

from collections.abc import Callable
from functools import partial

import jax
from folx import forward_laplacian
from jax import Array

from ..problems import Problem
from .jax_losses import LogDensity, Loss, as_array, log_density, nothing, parameters_of


def sm(f: LogDensity, x: Array, unused: Array) -> Array:
    """Return the exact loss (Hyvärinen, 2005), per dimension."""

    def of_row(row: Array) -> Array:
        result = forward_laplacian(f)(row)
        return result.laplacian + (result.jacobian.dense_array**2).sum() / 2

    return jax.vmap(of_row)(x).mean() / x.shape[-1]


SM = Loss(sm, nothing)


def value(problem: Problem) -> Callable[[], object]:
    """Return a function that computes the exact loss of a perceptron, compiled."""
    model, x = problem.build()
    parameters, rows = parameters_of(model), as_array(x)
    run = jax.jit(lambda parameters, x: sm(partial(log_density, parameters), x, x))
    return lambda: jax.block_until_ready(run(parameters, rows))
