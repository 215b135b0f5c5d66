"""Samples in one step
===================

Flow matching learns a velocity that moves noise to data. To follow it takes many evaluations of
the network. Mean flow learns the average velocity of an interval of time instead, and one step
with it moves noise to data. Its target has a derivative along the path, in space and time, which
``MeanFlow`` computes with Taylor mode in one forward pass.
"""

# %%
# The data
# --------
# Two crescents with noise.

from collections.abc import Callable
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from fdsm import FiniteDifference, Taylor
from fdsm.objectives import FlowMatching, MeanFlow, UniformTimes
from fdsm.typing import Objective

torch.manual_seed(0)
angle = torch.linspace(0.0, torch.pi, 200)
arm = 1.4 * torch.stack([angle.cos() - 0.5, angle.sin() - 0.1], 1)
centers = torch.cat([arm, -arm])


def crescents(n: int) -> Tensor:
    """Return `n` points, shape `(n, 2)`."""
    return centers[torch.randint(len(centers), (n,))] + 0.15 * torch.randn(n, 2)


# %%
# The network
# -----------
# The average velocity :math:`u(z, r, t)` takes a point and two times, :math:`r ≤ t`. The data are
# at time zero and the noise is at time one. With :math:`r = t` it is a velocity.


class AverageVelocity(nn.Module):
    """A network of a point, a time and the length of an interval."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(2 + 8 + 8, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 2),
        )  # fmt: skip

    def forward(self, z: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Return the average velocity, shapes `(B, 2), (B,), (B,) -> (B, 2)`."""
        waves = torch.cat([z, torch.pi * torch.stack([t, t - r], 1)], 1)
        waves = torch.cat([waves, 2 * waves], 1)
        velocity: Tensor = self.network(torch.cat([z, waves.sin(), waves.cos()], 1))
        return velocity


# %%
# Training
# --------
# The loop is the same for both objectives. The published settings draw most times in the middle
# and have :math:`r < t` in a quarter of the examples. So small a training run needs more examples
# of the whole interval, from which one step is made: uniform times and a share of three quarters.


def fit(
    objective: Objective, model: nn.Module, field: Callable[..., Tensor], steps: int = 6000
) -> None:
    """Train the model, of which the field is the part that the objective takes."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss = objective(field, crescents(512)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.requires_grad_(requires_grad=False)


flow, mean_flow = AverageVelocity(), AverageVelocity()
fit(FlowMatching(), flow, lambda z, t: flow(z, t, t))
objective = MeanFlow(Taylor(), UniformTimes(), unequal=0.75)
fit(objective, mean_flow, mean_flow)

# %%
# Samples
# -------
# A step from time :math:`t` to :math:`r` is :math:`z - (t - r) \, u(z, r, t)`. It is an Euler step
# for the velocity of flow matching. Samples are compared with data by the energy distance,
# :math:`2 E‖x - y‖ - E‖x - x'‖ - E‖y - y'‖`, and by the share that is more than three deviations
# of the noise away from the arcs.


def sample(u: Callable[..., Tensor], z: Tensor, steps: int) -> Tensor:
    """Move noise to data in steps of equal length."""
    times = torch.linspace(1, 0, steps + 1)
    for t, r in pairwise(times):
        z = z - (t - r) * u(z, r.expand(len(z)), t.expand(len(z)))
    return z


def distance(x: Tensor, y: Tensor) -> float:
    """Return the energy distance of two samples, shapes `(N, 2)`, `(N, 2)`."""
    n = len(x)
    within = (torch.cdist(x, x).sum() + torch.cdist(y, y).sum()) / (n * (n - 1))
    return (2 * torch.cdist(x, y).mean() - within).item()


def stray(x: Tensor) -> float:
    """Return the share of points that are far from the arcs."""
    return (torch.cdist(x, centers).amin(1) > 3 * 0.15).double().mean().item()


noise, test = torch.randn(4000, 2), crescents(4000)
models = {
    "flow matching": lambda z, r, t: flow(z, t, t),
    "mean flow": mean_flow,
}
samples = {(name, n): sample(u, noise, n) for name, u in models.items() for n in (1, 2, 100)}
for (name, n), x in {**samples, ("other data", 0): crescents(4000)}.items():
    print(f"{name:13} steps: {n:3}  distance: {distance(x, test):7.4f}  far: {stray(x):5.1%}")

fig, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained", sharey=True)
shown = [("flow matching", 1), ("flow matching", 100), ("mean flow", 100), ("mean flow", 1)]
for ax, (name, n) in zip(axes, shown, strict=True):
    ax.plot(*samples[name, n].T, ".", ms=1.5)
    ax.plot(*centers.T, ".k", ms=1)
    ax.set(title=f"{name}, {n} step{'s' if n > 1 else ''}", xlim=(-3, 3), ylim=(-3, 3))
    ax.set_aspect("equal")
plt.show()

# %%
# One step of flow matching goes to the mean of the data. One step of mean flow leaves a few
# samples between the arcs, where the network would have to change abruptly. More steps leave
# fewer.

# %%
# The derivative by finite differences
# ------------------------------------
# With ``FiniteDifference`` the objective needs values of the network only. The target then has an
# error. It is measured here on the trained network, against Taylor mode in float64.

t = 0.3 + 0.7 * torch.rand(1000, dtype=torch.float64)
r = t * torch.rand(1000, dtype=torch.float64)
x, e = crescents(1000).double(), torch.randn(1000, 2, dtype=torch.float64)
z, v = (1 - t)[:, None] * x + t[:, None] * e, e - x
truth = MeanFlow(Taylor()).target(mean_flow.double(), z, v, r, t)


def error(objective: MeanFlow, dtype: torch.dtype) -> float:
    """Return the error of the target, relative to its size."""
    rows = [a.to(dtype) for a in (z, v, r, t)]
    target = objective.target(mean_flow.to(dtype), *rows)
    return ((target - truth).norm() / truth.norm()).item()


steps = torch.logspace(-6, 0, 37).tolist()
engine = FiniteDifference(checks=False)
dtypes = {"float64": torch.float64, "float32": torch.float32}
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for color, (name, dtype) in enumerate(dtypes.items()):
    errors = [error(MeanFlow(engine, step=h), dtype) for h in steps]
    ax.loglog(steps, errors, f"C{color}", label=name)
    exact = error(MeanFlow(Taylor()), dtype)
    if exact > 0:  # in float64 it is the truth itself
        ax.axhline(exact, color=f"C{color}", ls="--")
    print(f"{name}: finite differences at best {min(errors):.0e}, Taylor mode {exact:.0e}")
ax.plot([], [], "k--", label="Taylor mode")
ax.set(xlabel="step of finite differences", ylabel="relative error of the target")
ax.legend()
plt.show()
bias = error(MeanFlow(engine), torch.float32)
print(f"at the default step, {MeanFlow().step}: {bias:.1%}")

# %%
# A large step has a bias, which grows with its square, and a small one magnifies rounding. Taylor
# mode has no step.
