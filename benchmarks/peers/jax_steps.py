"""Compiled steps in JAX: the gradient of a loss, with and without Adam."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from torch import nn

from ..problems import Problem
from .jax_losses import Loss, Parameters, as_array, parameters_of

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class State(NamedTuple):
    """Parameters, moments of the gradient, number of steps and the key of random numbers."""

    parameters: Parameters
    first: Parameters
    second: Parameters
    count: Array
    key: Array


def initial_state(model: nn.Module, seed: int = 0) -> State:
    """Return the state before the first step."""
    parameters = parameters_of(model)
    zeros = partial(jax.tree.map, jnp.zeros_like, parameters)
    return State(parameters, zeros(), zeros(), jnp.zeros(()), jax.random.key(seed))


def adam(state: State, gradient: Parameters, lr: float) -> State:
    """Return the state after a step of Adam (Kingma and Ba, 2015, Algorithm 1).

    Args:
        state: The state.
        gradient: The gradient of the parameters.
        lr: The learning rate.

    Returns:
        The new state, with the same key.
    """
    b1, b2 = BETAS
    count = state.count + 1
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, gradient)
    second = jax.tree.map(lambda s, g: b2 * s + (1 - b2) * g * g, state.second, gradient)
    size = lr / (1 - b1**count)
    correction = 1 / (1 - b2**count)
    parameters = jax.tree.map(
        lambda p, m, s: p - size * m / (jnp.sqrt(s * correction) + EPSILON),
        state.parameters, first, second,
    )  # fmt: skip
    return State(parameters, first, second, count, state.key)


def gradient_step(loss: Loss, problem: Problem) -> Callable[[], object]:
    """Return a function that computes the gradient of a loss at a batch.

    Args:
        loss: The loss. Its random numbers are drawn inside the compiled step.
        problem: The network, a perceptron in torch, and the batch.

    Returns:
        The function. It waits for the result.
    """

    def step(parameters: Parameters, key: Array, x: Array) -> tuple[object, Array]:
        key, use = jax.random.split(key)
        return jax.value_and_grad(loss.at)(parameters, x, use), key

    model, x = problem.build()
    parameters, rows, key = parameters_of(model), as_array(x), jax.random.key(0)
    compiled = jax.jit(step)

    def run() -> object:
        nonlocal key
        result, key = compiled(parameters, key, rows)
        return jax.block_until_ready(result)

    return run


def adam_step(loss: Loss, problem: Problem, lr: float) -> Callable[[], object]:
    """Return a function that updates parameters with Adam; see `gradient_step`."""

    def step(state: State, x: Array) -> tuple[State, Array]:
        key, use = jax.random.split(state.key)
        value, gradient = jax.value_and_grad(loss.at)(state.parameters, x, use)
        return adam(state._replace(key=key), gradient, lr), value

    model, x = problem.build()
    state, rows = initial_state(model), as_array(x)
    compiled = jax.jit(step, donate_argnums=0)

    def run() -> object:
        nonlocal state
        state, value = compiled(state, rows)
        return jax.block_until_ready((state, value))

    return run
