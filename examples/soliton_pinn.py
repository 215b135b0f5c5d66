r"""A soliton by partial derivatives
================================

A physics-informed network solves the equation of Korteweg and de Vries,
:math:`u_t + 6 u u_x + u_{xxx} = 0`. ``fdsm.partials`` returns the value and all derivatives that
the equation needs from one call of the network, and ``fdsm.jvp`` its rate of change along a path.
The solution is known, so the page ends with the error.
"""

# %%
# Equation and solution
# ---------------------
# A wave of speed 1 that keeps its shape, :math:`u = \tfrac12 \mathrm{sech}²((x - t)/2)`.

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import fdsm

torch.manual_seed(0)
LEFT, RIGHT, END = -6.0, 8.0, 2.0


def soliton(x: Tensor, t: Tensor) -> Tensor:
    """Return the solution."""
    return 0.5 / ((x - t) / 2).cosh() ** 2


# %%
# The network
# -----------
# It is equal to the solution at time zero, so only the equation and the edges are left to learn.


class Wave(nn.Module):
    """A network of space and time that starts as the soliton."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the value at each point, shapes `(B, 1), (B,) -> (B,)`."""
        t = t[:, None]
        scaled = torch.cat([x / RIGHT, t / END], 1)
        value: Tensor = soliton(x, torch.zeros_like(t)) + t * self.network(scaled)
        return value.squeeze(1)


# %%
# Training
# --------
# The names of the derivatives are letters of ``names``; the empty string is the value. All of them
# come from two series that share their value: every tensor in the network has five coefficients.

wave = Wave()
at = lambda z: wave(z[:, :1], z[:, 1])
optimizer = torch.optim.Adam(wave.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3000)
for step in range(1, 3001):
    z = torch.rand(256, 2) * torch.tensor([RIGHT - LEFT, END]) + torch.tensor([LEFT, 0.0])
    u = fdsm.partials(at, z, ["", "x", "t", "xxx"], names="xt")
    residual = u["t"] + 6 * u[""] * u["x"] + u["xxx"]
    edge = torch.cat([torch.full((32, 1), LEFT), torch.full((32, 1), RIGHT)])
    time = END * torch.rand(64)
    loss = (
        residual.square().mean() + (wave(edge, time) - soliton(edge[:, 0], time)).square().mean()
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 500 == 0:
        print(f"step {step:5}  loss {loss.item():.1e}")

# %%
# The error
# ---------
# On a grid that training has not seen.

x = torch.linspace(LEFT, RIGHT, 201)
times = torch.tensor([0.0, 1.0, END])
found = [wave(x[:, None], t.expand(201)).detach() for t in times]
errors = [u - soliton(x, t) for u, t in zip(found, times, strict=True)]
print(f"largest error: {torch.stack(errors).abs().max():.1e}, of a wave of height 0.5")

# %%
# Along a path
# ------------
# For somebody who moves with the wave, :math:`dx/dt = 1`, nothing changes. ``jvp`` takes the
# direction in :math:`x` and one for each condition, here the time, and differentiates along both.

points, now = x[:, None], torch.full((201,), 1.0)
_, moving = fdsm.jvp(wave, points, torch.ones_like(points), now, cond_directions=(1.0,))
_, resting = fdsm.jvp(wave, points, None, now, cond_directions=(1.0,))
moving, resting = moving.detach(), resting.detach()
print(
    f"largest rate of change: {resting.abs().max():.2f} at rest, {moving.abs().max():.0e} moving"
)

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
for u, t in zip(found, times, strict=True):
    axes[0].plot(x, u, label=f"$t = {t:.0f}$")
    axes[0].plot(x, soliton(x, t), "k:", lw=1)
axes[0].set(xlabel="$x$", title="network, and the solution (dotted)")
axes[0].legend()
axes[1].plot(x, resting, label="at rest")
axes[1].plot(x, moving, label="moving with the wave")
axes[1].set(xlabel="$x$", title="rate of change at $t = 1$")
axes[1].legend()
plt.show()
