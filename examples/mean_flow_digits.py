"""Digits in one step
==================

Two networks learn 8 × 8 digits, one by flow matching and one by mean flow, and make them from the
same noise in one step and in fifty. A classifier reads the samples, and another one tries to tell
them from digits that no network has seen. The page about :doc:`samples in one step <mean_flow>`
explains the objectives.
"""

# %%
# The digits
# ----------
# 1,797 images with pixels between 0 and 16, here between -1 and 1.

from collections.abc import Callable
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from fdsm.objectives import FlowMatching, MeanFlow, UniformTimes
from fdsm.typing import Objective

torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
order = torch.randperm(len(pixels))
digits, labels = torch.tensor(pixels, dtype=torch.float32)[order] / 8 - 1, labels[order.numpy()]
train, held_out = digits[:1397], digits[1397:]

# %%
# The network
# -----------
# An average velocity :math:`u(z, r, t)`: residual blocks that are given both times.


class AverageVelocity(nn.Module):
    """A residual network of an image, a time and the length of an interval."""

    def __init__(self, width: int = 256, depth: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.times = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
            )
            for _ in range(depth)
        )

    def forward(self, z: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Return the average velocity, shapes `(B, 64), (B,), (B,) -> (B, 64)`."""
        times = torch.pi / 2 * torch.stack([t, t - r], 1)
        waves = torch.cat([times, 2 * times, 4 * times, 8 * times], 1)
        hidden, shift = self.first(z), self.times(torch.cat([waves.sin(), waves.cos()], 1))
        for block in self.blocks:
            hidden = hidden + block(hidden + shift)
        velocity: Tensor = self.last(hidden)
        return velocity


# %%
# Training
# --------
# With ``p=0.5``, examples that are far from the average velocity count less. With that and half of
# the examples on an interval, digits were clearer than with the settings of the plane.


def fit(objective: Objective, model: nn.Module, field: Callable[..., Tensor], steps: int) -> None:
    """Train the model, of which the field is the part that the objective takes."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss = objective(field, train[torch.randint(len(train), (128,))]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.requires_grad_(requires_grad=False)


flow, mean_flow = AverageVelocity(), AverageVelocity()
fit(FlowMatching(), flow, lambda z, t: flow(z, t, t), 3000)
fit(MeanFlow(times=UniformTimes(), unequal=0.5, p=0.5), mean_flow, mean_flow, 3000)

# %%
# Samples
# -------


def sample(u: Callable[..., Tensor], z: Tensor, steps: int) -> Tensor:
    """Move noise to data in steps of equal length."""
    times = torch.linspace(1, 0, steps + 1)
    for t, r in pairwise(times):
        z = z - (t - r) * u(z, r.expand(len(z)), t.expand(len(z)))
    return z


noise = torch.randn(400, 64)
models = {"flow matching": lambda z, r, t: flow(z, t, t), "mean flow": mean_flow}
samples = {(name, n): sample(u, noise, n) for name, u in models.items() for n in (1, 50)}


def tiles(images: Tensor, count: int = 6) -> Tensor:
    """Return images side by side, with a margin."""
    padded = nn.functional.pad(images[: count**2].view(count, count, 8, 8), (1, 1, 1, 1), value=-1)
    return padded.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)


shown = {"digits": held_out} | {
    f"{name}, {n} step{'s' if n > 1 else ''}": images for (name, n), images in samples.items()
}
fig, axes = plt.subplots(1, 5, figsize=(13, 3), layout="constrained")
for ax, (title, images) in zip(axes, shown.items(), strict=True):
    ax.imshow(tiles(images).numpy(), cmap="gray_r", vmin=-1, vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
plt.show()

# %%
# How good are they?
# ------------------
# The share that a classifier of digits reads with more than 90 % confidence. The area under the
# ROC curve of a random forest that learns to tell 400 images from 400 held-out digits, with pixels
# rounded to their seventeen values: 0.5 if it cannot, 1 if it always can.

reader = MLPClassifier((128,), alpha=0.1, max_iter=400, random_state=0)
reader.fit(train.numpy(), labels[:1397])


def read(images: Tensor) -> float:
    """Return the share of images that are read with confidence."""
    confidence = reader.predict_proba(images.clamp(-1, 1).numpy()).max(1)
    return float((confidence > 0.9).mean())


def detected(images: Tensor) -> float:
    """Return how well a forest tells images from held-out digits."""
    rows = (8 * torch.cat([held_out, images]).clamp(-1, 1)).round().numpy()
    forest = RandomForestClassifier(random_state=0)
    scores = cross_val_score(forest, rows, [0] * 400 + [1] * 400, cv=4, scoring="roc_auc")
    return float(scores.mean())


shown["training digits"] = train[:400]
quality = {name: (read(images), detected(images)) for name, images in shown.items()}
for name, (share, auc) in quality.items():
    print(f"{name:24} read {share:6.1%}, AUC {auc:.3f}")

# %%
# One step of flow matching goes to the mean of all digits. One step of mean flow makes different
# digits, and most of them can be read. They are blurred, and the forest recognizes nearly all of
# them. Fifty steps of mean flow can be read more often. Those of flow matching are closest to
# digits for the forest, for fifty times the evaluations.
