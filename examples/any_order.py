r"""Derivatives of any order
========================

Theorem 1 of the paper: the derivative of order :math:`T` along a direction is a combination of
:math:`T + 1` values of the function, with an error of second order in the step. This page measures
that order on a known function, and differentiates a function of numpy.
"""

# %%
# Weights
# -------
# Nodes that are symmetric about zero, and a row of exact weights for each order.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from fdsm import FiniteDifference, Taylor, directional_derivative
from fdsm.derivatives import central_nodes, stencil

for order in (1, 2, 3, 4):
    nodes = central_nodes(order)
    weights = ", ".join(map(str, stencil(nodes)[order]))
    print(f"order {order}: nodes {nodes}, weights {weights}")

# %%
# The order of the error
# ----------------------
# Along :math:`v`, the derivatives of :math:`\sin(w^T x)` are known: :math:`(w^T v)^T \sin(w^T x +
# Tπ/2)`. In a plot with logarithmic axes the error is a line whose slope is its order, until
# rounding takes over on the left. ``accuracy=4`` takes two more values.

torch.manual_seed(0)
x, v = torch.randn(2, 64, 5, dtype=torch.float64)
w = torch.randn(5, dtype=torch.float64)


def f(x: Tensor) -> Tensor:
    """Return a plane wave, shape `(B, D) -> (B,)`."""
    return (x @ w).sin()


def truth(order: int) -> Tensor:
    """Return its derivative along `v`."""
    return (v @ w) ** order * (x @ w + order * np.pi / 2).sin()


def error(order: int, step: float, accuracy: int = 2) -> float:
    """Return the relative error of a finite difference."""
    engine = FiniteDifference(accuracy=accuracy, checks=False)
    found = directional_derivative(f, x, v, order, derivative=engine, step=step)
    return ((found - truth(order)).norm() / truth(order).norm()).item()


steps = np.logspace(-4, -0.5, 36)
fig, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
for accuracy, line in ((2, "-"), (4, "--")):
    for color, order in enumerate((1, 2, 3, 4)):
        errors = [error(order, step, accuracy) for step in steps]
        label = f"order {order}" if accuracy == 2 else None
        ax.loglog(steps, errors, f"C{color}{line}", label=label)
        slope = np.log2(error(order, 0.2, accuracy) / error(order, 0.1, accuracy))
        print(f"order {order}, accuracy {accuracy}: the error shrinks as step^{slope:.2f}")
ax.plot([], [], "k--", label="accuracy=4")
ax.set(xlabel="step", ylabel="relative error", ylim=(1e-13, 1e3))
ax.legend(ncols=2)
plt.show()

# %%
# Taylor mode has no step, and is exact at every order:

for order in (4, 8, 12):
    found = directional_derivative(f, x, v, order, derivative=Taylor())
    print(f"order {order:2}: error {(found - truth(order)).norm() / truth(order).norm():.0e}")

# %%
# A function of numpy
# -------------------
# Finite differences need only values, so they also differentiate what autograd cannot see. ``jet``
# returns all derivatives up to an order; the length of the direction is the step.


def simulation(x: Tensor) -> Tensor:
    """Return the same wave, computed by numpy."""
    return torch.from_numpy(np.sin(x.numpy() @ w.numpy()))


step = 0.02
_, *derivatives = FiniteDifference(accuracy=6).jet(simulation, x, step * v, 4)
for order, found in enumerate(derivatives, 1):
    difference = found / step**order - truth(order)
    print(f"order {order}: error {difference.norm() / truth(order).norm():.0e}")
