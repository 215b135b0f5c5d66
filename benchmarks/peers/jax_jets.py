"""Derivatives of any order with `jax.experimental.jet`."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.jet import jet

from ..problems import Problem
from .jax_losses import LogDensity, Loss, Parameters, as_array, parameters_of, sphere
from .jax_steps import gradient_step


def derivative_sum(order: int, f: LogDensity, x: Array, v: Array) -> Array:
    """Return the mean over the batch of the sum of all derivatives along `v`."""
    series = [v, *[jnp.zeros_like(v)] * (order - 1)]
    value, derivatives = jet(f, (x,), (series,))
    return (value + sum(derivatives)).mean()


def jet_gradient(order: int, problem: Problem) -> Callable[[], object]:
    """Return a function that computes the sum of derivatives and its parameter gradient."""
    return gradient_step(Loss(partial(derivative_sum, order), sphere), problem)


def jet_value(order: int, problem: Problem) -> Callable[[], object]:
    """Return a function that computes the sum of derivatives."""
    loss = Loss(partial(derivative_sum, order), sphere)

    def step(parameters: Parameters, x: Array, key: Array) -> tuple[Array, Array]:
        key, use = jax.random.split(key)
        return loss.at(parameters, x, use), key

    model, x = problem.build()
    parameters, rows, key = parameters_of(model), as_array(x), jax.random.key(0)
    run = jax.jit(step)

    def value() -> object:
        nonlocal key
        result, key = run(parameters, rows, key)
        return jax.block_until_ready(result)

    return value
