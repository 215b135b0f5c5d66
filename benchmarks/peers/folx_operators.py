"""Differential operators with the forward Laplacian of folx, of perceptrons with tanh."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from folx import forward_laplacian
from jax import Array

from ..problems import Problem
from .jax_losses import LogDensity, Parameters, as_array, log_density, parameters_of

Operator = Callable[[LogDensity, Array], Array]


def laplacian(f: LogDensity, x: Array) -> Array:
    """Return the Laplacian at each row."""
    return jax.vmap(_laplacian_of_row(f))(x)


def biharmonic(f: LogDensity, x: Array) -> Array:
    """Return the Laplacian of the Laplacian at each row."""
    return jax.vmap(_laplacian_of_row(_laplacian_of_row(f)))(x)


def _laplacian_of_row(f: LogDensity) -> LogDensity:
    return lambda row: forward_laplacian(f)(row).laplacian


OPERATORS: dict[str, Operator] = {"Laplacian": laplacian, "biharmonic": biharmonic}


def value(operator: Operator, problem: Problem) -> Callable[[], object]:
    """Return a function that computes an operator, compiled."""
    return _compiled(operator, problem, lambda of: of)


def gradient(operator: Operator, problem: Problem) -> Callable[[], object]:
    """Return a function that computes the mean of an operator and its gradient, compiled."""
    return _compiled(
        operator, problem, lambda of: jax.value_and_grad(lambda p, x: of(p, x).mean())
    )


def _compiled(
    operator: Operator, problem: Problem, wrap: Callable[[Callable[..., Array]], object]
) -> Callable[[], object]:
    def of(parameters: Parameters, x: Array) -> Array:
        return operator(partial(log_density, parameters, activation=jnp.tanh), x)

    model, x = problem.build()
    parameters, rows, run = parameters_of(model), as_array(x), jax.jit(wrap(of))
    return lambda: jax.block_until_ready(run(parameters, rows))
