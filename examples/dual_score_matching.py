r"""Log-densities at all noise levels
==================================

A network :math:`f(x, σ)` that is trained by denoising score matching knows the slope of the
log-density in :math:`x`. The constant is free at every level, and the weights of modes that lie
far apart are hardly visible. ``DualDSM`` also matches the slope in :math:`σ`, and ``FokkerPlanck``
penalizes models that do not satisfy the equation of noisy densities. The data come from a mixture,
so the page ends with the error of the log-density.
"""

# %%
# The data
# --------
# Two separate modes with weights 0.8 and 0.2, in any dimension. Noise of level :math:`σ` adds to
# the variance, so the truth is known at all levels.

import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from fdsm.evaluation import fit_gaussian
from fdsm.noise import LogUniform
from fdsm.objectives import DualDSM, FokkerPlanck

torch.manual_seed(0)
LARGEST, SMALLEST, WIDTH = 10.0, 0.1, 0.3
LEVELS = LogUniform(LARGEST, SMALLEST)
WEIGHTS = torch.tensor([0.8, 0.2])


def centers(d: int) -> Tensor:
    """Return the centers of the modes, shape `(2, D)`."""
    return torch.tensor([[-2.0], [2.0]]) * torch.eye(d)[:1]


def sample(n: int, d: int) -> Tensor:
    """Return points of the mixture, shape `(N, D)`."""
    return centers(d)[WEIGHTS.multinomial(n, replacement=True)] + WIDTH * torch.randn(n, d)


def truth(x: Tensor, sigma: Tensor) -> Tensor:
    """Return the log-density of noisy points, shape `(B, D), (B,) -> (B,)`."""
    variance, d = (WIDTH**2 + sigma**2)[:, None], x.shape[1]
    distances = (x[:, None] - centers(d)).square().sum(2)
    kernels = -distances / (2 * variance) - d / 2 * (2 * math.pi * variance).log()
    return (WEIGHTS.log() + kernels).logsumexp(1)


# %%
# The model
# ---------
# The log-density of standard normal data with noise, plus a network of the scaled point and the
# level.


class NoisyDensity(nn.Module):
    """A log-density of noisy points, given the level."""

    def __init__(self, d: int, width: int = 64) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(d + 2, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, D), (B,) -> (B,)`."""
        variance, d = 1 + sigma**2, x.shape[1]
        scaled = x / variance.sqrt()[:, None]
        squares = scaled.square().sum(1)
        inputs = [scaled, squares[:, None] / d, sigma.log()[:, None]]
        correction: Tensor = self.network(torch.cat(inputs, 1)).squeeze(1)
        return correction - squares / 2 - d / 2 * variance.log()


# %%
# Training
# --------
# ``weight=0`` leaves denoising in :math:`x` only. All models see the same batches and noise.


def train(data: Tensor, weight: float, penalty: float = 0.0, steps: int = 2000) -> NoisyDensity:
    """Train a model with a weight of the slope in the level, and one of the residual."""
    torch.manual_seed(1)
    model, objective = NoisyDensity(data.shape[1]), DualDSM(LEVELS, weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    draw, draw_points = torch.Generator().manual_seed(2), torch.Generator().manual_seed(3)
    for _ in range(steps):
        x = data[torch.randint(len(data), (256,), generator=draw)]
        loss = objective(model, x, generator=draw).mean()
        if penalty:
            residuals = FokkerPlanck(LEVELS)(model, x[:128], generator=draw_points)
            loss = loss + penalty * residuals.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


# %%
# One constant for all levels
# ---------------------------
# With much noise the data are nearly Gaussian. The Gaussian with their mean and covariance, plus
# the noise, gives the constant at the largest level. It is used at all levels.


def constant(model: NoisyDensity, data: Tensor) -> Tensor:
    """Return the constant that normalizes the model, from the largest noise level."""
    noisy = data + LARGEST * torch.randn_like(data)
    sigma = torch.full((len(data),), LARGEST)
    with torch.no_grad():
        return (fit_gaussian(data, noise=LARGEST)(noisy) - model(noisy, sigma)).mean()


SHOWN = torch.logspace(math.log10(SMALLEST), math.log10(LARGEST), 9)


def errors(model: NoisyDensity, data: Tensor) -> list[float]:
    """Return the root mean square error of the log-density at each level, in nats."""
    x, offset = sample(5000, data.shape[1]), constant(model, data)
    result = []
    for level in SHOWN:
        sigma = level.expand(len(x))
        noisy = x + level * torch.randn_like(x)
        with torch.no_grad():
            error = model(noisy, sigma) + offset - truth(noisy, sigma)
        result.append(error.square().mean().sqrt().item())
    return result


# %%
# The plane
# ---------

data = sample(10_000, 2)
models = {
    "DSM": train(data, 0.0),
    "DSM + 0.1 FokkerPlanck": train(data, 0.0, penalty=0.1),
    "DualDSM": train(data, 1.0),
}
found = {name: errors(model, data) for name, model in models.items()}
print("error in nats at level ", *(f"{level:6.2f}" for level in SHOWN[::2]))
for name, values in found.items():
    print(f"{name:23}", *(f"{value:6.2f}" for value in values[::2]))

# %%
# At the smallest level, the weights of the modes are the integrals over the two halves of the
# plane. Denoising in :math:`x` has to guess the difference of the log-density between the modes
# from a region without data.

axis = torch.linspace(-4, 4, 321)
grid = torch.cartesian_prod(axis, axis)
smallest = torch.full((len(grid),), SMALLEST)
for name, model in models.items():
    with torch.no_grad():
        left = model(grid, smallest).softmax(0)[grid[:, 0] < 0].sum().item()
    print(f"{name:23} weight of the left mode {left:.3f}, truth 0.800")

# %%
# On the line through the modes. Between them, where the log-density is below -10, there are no
# data at this level, and all models are too high.

line = torch.stack([axis, torch.zeros_like(axis)], 1)
sigma = torch.full((len(axis),), SMALLEST)
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
axes[1].plot(axis, truth(line, sigma), "k", lw=1, label="truth")
for (name, model), style in zip(models.items(), ("C0--", "C2-.", "C1-"), strict=True):
    axes[0].loglog(SHOWN, found[name], style, marker=".", label=name)
    with torch.no_grad():
        values = model(line, sigma) + constant(model, data)
    axes[1].plot(axis, values, style, label=name)
axes[0].set(xlabel="noise level $σ$", ylabel="error of the log-density (nats)")
axes[1].set(xlabel="$x_1$", ylabel="log-density at $σ = 0.1$", ylim=(-22, 8), xlim=(-3.2, 3.2))
axes[0].legend(loc="upper right")
plt.show()

# %%
# More dimensions
# ---------------
# The same modes with 16 and 64 coordinates. In 64 dimensions training is twice as long.

largest = {}
for d, steps in ((16, 2000), (64, 4000)):
    data = sample(10_000, d)
    print(f"{d} dimensions, at level", *(f"{level:6.2f}" for level in SHOWN[::2]))
    for name, weight in (("DSM", 0.0), ("DualDSM", 1.0)):
        values = errors(train(data, weight, steps=steps), data)
        largest[d, name] = max(values)
        print(f"{name:23}", *(f"{value:6.2f}" for value in values[::2]))
