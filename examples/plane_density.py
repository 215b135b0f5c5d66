"""Density on the plane
====================

A network learns the density of points on the plane with sliced score matching. The points come
from a mixture whose density is known, so the page can compare: the score, samples, and the
log-density.
"""

# %%
# The data
# --------
# Three Gaussians that overlap. For data of your own, replace ``data`` by a tensor of shape ``(N,
# D)`` with columns of about unit variance, and leave out the comparisons.

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from fdsm import SSM
from fdsm.derivatives import score_of
from fdsm.evaluation import exact_sm_loss, relative_fisher_divergence
from fdsm.samplers import langevin

torch.manual_seed(0)
centers = torch.tensor([[-1.2, -0.6], [1.2, -0.6], [0.0, 1.2]])
components = Independent(Normal(centers, torch.tensor([[0.7, 0.5]]).expand(3, 2)), 1)
truth = MixtureSameFamily(Categorical(torch.tensor([0.5, 0.3, 0.2])), components)
data, held_out = truth.sample((10_000,)), truth.sample((2000,))


# %%
# The model
# ---------
# Any module that maps ``(B, D)`` to ``(B,)`` is an unnormalized log-density. The quadratic term
# makes it one that can be normalized.


class Density(nn.Module):
    """A smooth network minus a quadratic term."""

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-density up to a constant, shape `(B, D) -> (B,)`."""
        return self.network(x).squeeze(1) - x.square().sum(1) / 2


# %%
# Training
# --------
# An ordinary loop. The minimum of the loss is that of the true density.

model, objective = Density(2), SSM(directions=4)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2000)
for _ in range(2000):
    x = data[torch.randint(len(data), (256,))]
    loss = objective(model, x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

print(f"exact loss on held-out data: {exact_sm_loss(model, held_out).value:.3f}")
print(f"the same of the truth:       {exact_sm_loss(truth, held_out).value:.3f}")

# %%
# The score
# ---------
# Arrows are the learned score, and colors the true density.

axis = torch.linspace(-4, 4, 161)
grid = torch.cartesian_prod(axis, axis)
true = truth.log_prob(grid).view(161, 161).T
score = score_of(model)
error = relative_fisher_divergence(score, score_of(truth), held_out)
print(f"squared error of the score, relative to its size: {error.value:.1%}")

some = torch.cartesian_prod(axis[20:141:8], axis[20:141:8])
arrows = score(some).detach()
arrows = arrows / arrows.norm(dim=1, keepdim=True).clamp(min=1)  # long arrows would cover others
fig, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.pcolormesh(axis.numpy(), axis.numpy(), true.exp().numpy(), cmap="Blues", rasterized=True)
ax.quiver(*some.T.numpy(), *arrows.T.numpy(), angles="xy", color="C1", scale=25, width=0.006)
ax.set(xlabel="$x_1$", ylabel="$x_2$", title="learned score, true density")
ax.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
plt.show()

# %%
# Samples
# -------
# Langevin dynamics follows the score and adds noise. The chains start far too wide. If your data
# are narrow or in separate groups, start at rows of the data, because chains rarely change the
# group, and leave out ``step_size``, which is then chosen from the score.

samples = langevin(score, 2 * torch.randn(2000, 2), steps=1000, step_size=0.02)
print(
    f"means of samples {samples.mean(0).numpy().round(2)}, of data {data.mean(0).numpy().round(2)}"
)
print(
    f"deviations       {samples.std(0).numpy().round(2)}, of data {data.std(0).numpy().round(2)}"
)

fig, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.plot(*data[:2000].T.numpy(), ".", ms=4, alpha=0.4, label="data")
ax.plot(*samples.T.numpy(), ".", ms=4, alpha=0.4, label="samples")
ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal")
ax.legend(markerscale=3)
plt.show()

# %%
# The log-density
# ---------------
# On the plane the constant can be computed: the sum over a fine grid is one.

with torch.no_grad():
    learned = model(grid).view(161, 161).T
cell = (axis[1] - axis[0]) ** 2
learned = learned - (learned.logsumexp((0, 1)) + cell.log())
divergence = (true.exp() * (true - learned)).sum() * cell
print(f"Kullback-Leibler divergence from the truth: {divergence:.4f} nats")

fig, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
x, levels = axis.numpy(), range(-8, 0)
ax.contour(x, x, true.numpy(), levels, colors="k", linestyles="solid", linewidths=1)
ax.contour(x, x, learned.numpy(), levels, colors="C1", linestyles="dashed", linewidths=2)
ax.plot([], [], "k", label="truth")
ax.plot([], [], "C1--", label="learned")
ax.set(xlabel="$x_1$", ylabel="$x_2$", title="contours of the log-density")
ax.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), aspect="equal")
ax.legend(loc="upper right")
plt.show()
