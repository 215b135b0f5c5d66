r"""Poisson equation on the square
==============================

A physics-informed network solves :math:`-Δu = f` on the unit square with :math:`u = 0` on its
edges. ``fdsm.laplacian`` gives the exact Laplacian of the network, differentiable in its
parameters. The solution is known, so the page ends with the error.
"""

# %%
# Equation and solution
# ---------------------
# For :math:`u = \sin(πx) \sin(2πy)` the right-hand side is :math:`f = 5π² u`.

import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import fdsm

torch.manual_seed(0)


def solution(x: Tensor) -> Tensor:
    """Return the solution, shape `(B, 2) -> (B,)`."""
    return (math.pi * x[:, 0]).sin() * (2 * math.pi * x[:, 1]).sin()


# %%
# The network
# -----------
# A factor that vanishes on the edges leaves only the equation to learn.


class Membrane(nn.Module):
    """A network that is zero on the edges of the square."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the value at each point, shape `(B, 2) -> (B,)`."""
        return 16 * (x * (1 - x)).prod(1) * self.network(2 * x - 1).squeeze(1)


# %%
# Training
# --------
# The loss is the mean square of the residual at random points.

u = Membrane()
optimizer = torch.optim.Adam(u.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2000)
for step in range(1, 2001):
    x = torch.rand(256, 2)
    residual = fdsm.laplacian(u, x) + 5 * math.pi**2 * solution(x)
    loss = residual.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 500 == 0:
        print(f"step {step:5}  mean square of the residual {loss.item():.1e}")

# %%
# The error
# ---------
# On a grid that training has not seen.

axis = torch.linspace(0, 1, 101)
grid = torch.cartesian_prod(axis, axis)
with torch.no_grad():
    found = u(grid)
difference = found - solution(grid)
print(f"relative error: {difference.norm() / solution(grid).norm():.1e}")
print(f"largest error:  {difference.abs().max():.1e}, of a solution between -1 and 1")

fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.4), layout="constrained", sharey=True)
for ax, values, title in zip(axes, (found, difference), ("network", "error"), strict=True):
    image = values.view(101, 101).T.numpy()
    size = abs(image).max()
    shown = ax.imshow(
        image, cmap="RdBu_r", vmin=-size, vmax=size, origin="lower", extent=(0, 1, 0, 1)
    )
    fig.colorbar(shown, ax=ax, location="bottom", format="%.0e" if size < 0.1 else None)
    ax.set(xlabel="$x$", title=title)
axes[0].set_ylabel("$y$")
plt.show()
