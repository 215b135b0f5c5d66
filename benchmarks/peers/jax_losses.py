"""The losses in JAX, as its users write them: compiled, with random numbers inside the step."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import torch
from jax import Array
from torch import Tensor, nn

from .by_hand import EPS, SIGMA

LogDensity = Callable[[Array], Array]


class Parameters(NamedTuple):
    """Weights and biases of a perceptron, and the precision of its Gaussian tail if it has one."""

    weights: list[Array]
    biases: list[Array]
    log_precision: Array | None


class Loss(NamedTuple):
    """A loss and the distribution of its directions or noise.

    Attributes:
        value: `log_density, x, random -> ()`.
        draw: `key, x -> random`.
    """

    value: Callable[[LogDensity, Array, Array], Array]
    draw: Callable[[Array, Array], Array]

    def at(self, parameters: Parameters, x: Array, key: Array) -> Array:
        """Return the loss of a perceptron."""
        return self.value(partial(log_density, parameters), x, self.draw(key, x))


def as_array(tensor: Tensor) -> Array:
    """Return a tensor as an array of JAX."""
    return jnp.array(tensor.detach().numpy())


def parameters_of(model: nn.Module) -> Parameters:
    """Return the parameters of a perceptron.

    Args:
        model: Linear layers with SiLU between them, or a `GaussianTailMLP`.

    Returns:
        The parameters.
    """
    layers = _linear_layers(model)
    precision = getattr(model, "log_precision", None)
    return Parameters(
        [as_array(layer.weight.T) for layer in layers],
        [as_array(layer.bias) for layer in layers if layer.bias is not None],
        None if precision is None else as_array(precision),
    )


def load_parameters(model: nn.Module, parameters: Parameters) -> None:
    """Copy parameters of `parameters_of` back into the model."""
    layers = _linear_layers(model)
    with torch.no_grad():
        for layer, weight in zip(layers, parameters.weights, strict=True):
            layer.weight.copy_(_as_tensor(weight).T)
        for layer, bias in zip(layers, parameters.biases, strict=False):
            layer.bias.copy_(_as_tensor(bias))
        if parameters.log_precision is not None:
            model.get_parameter("log_precision").copy_(_as_tensor(parameters.log_precision))


def _linear_layers(model: nn.Module) -> list[nn.Linear]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Linear)]


def _as_tensor(array: Array) -> Tensor:
    return torch.tensor(jax.device_get(array))


def log_density(parameters: Parameters, x: Array, activation: LogDensity = jax.nn.silu) -> Array:
    """Return the log-density of a perceptron, shape `(B, d) -> (B,)`; of one row, `(d,) -> ()`."""
    *hidden, last = parameters.weights
    h = x
    for weight, bias in zip(hidden, parameters.biases, strict=False):
        h = activation(h @ weight + bias)
    values = (h @ last)[..., 0]
    if len(parameters.biases) > len(hidden):
        values += parameters.biases[-1][0]
    if parameters.log_precision is not None:
        values -= jnp.exp(parameters.log_precision) * (x * x).sum(-1) / 2
    return values


def ssm_jvp_grad(f: LogDensity, x: Array, v: Array) -> Array:
    """Return SSM with forward mode over reverse mode."""
    score, product = jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (v,))
    return _ssm((score * v).sum(-1), (product * v).sum(-1))


def ssm_jvp_jvp(f: LogDensity, x: Array, v: Array) -> Array:
    """Return SSM with forward mode over forward mode."""
    slope, curvature = jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))
    return _ssm(slope, curvature)


def _ssm(slope: Array, curvature: Array) -> Array:
    return ((curvature + slope**2 / 2) / EPS**2).mean()


def fd_ssm(f: LogDensity, x: Array, v: Array) -> Array:
    """Return FD-SSM."""
    center, plus, minus = jnp.split(f(jnp.concatenate([x, x + v, x - v])), 3)
    return ((plus + minus - 2 * center + (plus - minus) ** 2 / 8) / EPS**2).mean()


def dsm(f: LogDensity, x: Array, noise: Array) -> Array:
    """Return DSM."""
    score = jax.grad(lambda x: f(x).sum())(x + noise)
    return jnp.square(score + noise / SIGMA**2).mean()


def plain(f: LogDensity, x: Array, unused: Array) -> Array:
    """Return the mean log-density."""
    return f(x).mean()


def sphere(key: Array, x: Array) -> Array:
    """Return a random direction of length `EPS` for each row."""
    v = jax.random.normal(key, x.shape)
    return EPS * v / jnp.linalg.norm(v, axis=-1, keepdims=True)


def noise(key: Array, x: Array) -> Array:
    """Return noise of level `SIGMA`."""
    return SIGMA * jax.random.normal(key, x.shape)


def nothing(key: Array, x: Array) -> Array:
    """Return zero, for losses without random numbers."""
    return jnp.zeros(())


LOSSES = {
    "plain": Loss(plain, nothing),
    "FD-SSM": Loss(fd_ssm, sphere),
    "SSM jvp(grad)": Loss(ssm_jvp_grad, sphere),
    "SSM jvp(jvp)": Loss(ssm_jvp_jvp, sphere),
    "DSM": Loss(dsm, noise),
}
