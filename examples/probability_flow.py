"""Likelihood by the probability flow
==================================

A model of noisy data that is given the noise level is known up to a constant. Its probability flow
is normalized: it moves samples of a Gaussian to the data, and the divergence along the path gives
the log-likelihood. Here an energy is trained by denoising score matching on two crescents, and its
likelihood compared with the truth and with a fitted Gaussian mixture.
"""

# %%
# The data
# --------
# Two crescents with noise. Their density is a mixture of many small Gaussians, so the true
# log-likelihood is known, also that of rows with more noise.

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from fdsm.evaluation import (
    FittedDensity,
    bits_per_dim,
    fit_gaussian,
    fit_gaussian_mixture,
    flow_of_log_density,
    log_likelihood,
    nll,
)
from fdsm.models import NoiseConditionalMLP
from fdsm.noise import LogUniform
from fdsm.objectives import AnnealedDSM, ViaScore

torch.manual_seed(0)
angle = torch.linspace(0.0, torch.pi, 200)
arm = 1.4 * torch.stack([angle.cos() - 0.5, angle.sin() - 0.3], 1)
centers = torch.cat([arm, -arm]).double()


def crescents(noise: float) -> FittedDensity:
    """Return the density of the crescents with additional noise."""
    variance = (0.2**2 + noise**2) * torch.eye(2).double()
    return FittedDensity(torch.full((400,), 1 / 400).double(), centers, variance.expand(400, 2, 2))


train, held_out = crescents(0.0).sample(10_000), crescents(0.0).sample(500)

# %%
# Training
# --------
# The noise level is drawn for each example, from one much wider than the data to one much narrower
# than a crescent.

levels = (10.0, 0.1)
model = NoiseConditionalMLP(2, widths=(128, 128))
objective = ViaScore(AnnealedDSM(LogUniform(*levels)))
steps = 4000
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
for _ in range(steps):
    batch = train[torch.randint(len(train), (256,))]
    loss = objective(model, batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
model.requires_grad_(requires_grad=False)

# %%
# Likelihood
# ----------
# The base is a Gaussian with the mean and covariance of the noisy data. The result is the
# log-likelihood of rows with noise of the last level, so noise is added to the held-out rows.
# Every row has an error, that of the solver. The difference to the truth is due to the training.

flow = flow_of_log_density(model, fit_gaussian(train, noise=levels[0]), levels, tolerance=1e-4)
noisy = held_out + levels[1] * torch.randn_like(held_out)
result = log_likelihood(flow, noisy)
truth = nll(crescents(levels[1]), noisy)
gaussian = nll(fit_gaussian(train, noise=levels[1]), noisy)
mixture = fit_gaussian_mixture(train, noise=levels[1])
assert mixture is not None
print(f"fitted Gaussian: {gaussian} nats per row")
print(f"mixture of {len(mixture.weights)}:   {nll(mixture, noisy)}")
print(f"model:           {result.nll}, that is {bits_per_dim(result.nll, 2)} bits per dimension")
print(f"truth:           {truth}")
print(f"largest error of the solver: {result.solver_error.max():.1g} nats")

# %%
# Random directions estimate the divergence at a cost that does not depend on the dimension. Their
# error is stated, too. In two dimensions the exact divergence is cheaper.

estimate = log_likelihood(flow, noisy, directions=8)
difference = (estimate.log_prob - result.log_prob).abs()
covered = (difference <= 2 * estimate.error).double().mean().item()
print(f"within two stated errors: {covered:.0%} of the rows")

# %%
# The density and samples
# -----------------------
# The flow in the other direction returns samples together with their log-likelihood.

samples, log_prob = flow.sample_with_log_prob(1000, torch.Generator().manual_seed(0))
axis = torch.linspace(-2.5, 2.5, 60)
grid = torch.cartesian_prod(axis, axis)


def picture(values: Tensor) -> Tensor:
    """Return the values of the grid as a picture."""
    return values.exp().view(60, 60).T


fig, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained", sharey=True)
extent = (-2.5, 2.5, -2.5, 2.5)
panels = {
    "truth": crescents(levels[1]).log_prob(grid),
    "model": log_likelihood(flow, grid).log_prob,
}
for ax, (title, values) in zip(axes, panels.items(), strict=False):
    ax.imshow(picture(values), origin="lower", extent=extent)
    ax.set_title(title)
points = axes[2].scatter(*samples.T, c=log_prob, s=4)
axes[2].set(title="samples", xlim=extent[:2], ylim=extent[2:], aspect="equal")
fig.colorbar(points, label="log-likelihood (nats)")
plt.show()

# %%
# The integral of the density over the picture is one, up to the error of the grid: the likelihood
# is normalized.

total = panels["model"].exp().sum() * (axis[1] - axis[0]) ** 2
print(f"integral: {total:.3f}")
