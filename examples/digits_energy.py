"""An energy-based model of digits
===============================

A network learns the log-density of 8 × 8 digits at many noise levels, by denoising score matching.
Samples walk from noise to digits. A classifier that tries to tell samples from digits measures how
good they are.
"""

# %%
# Digits and a model
# ------------------
# 1,797 images with pixels between 0 and 16, here between -1 and 1. The model is a log-density
# given the noise level: an image that a network reconstructs well is likely. Its gradient is the
# score.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

from fdsm.derivatives import score_of
from fdsm.evaluation import fit_gaussian
from fdsm.models import MeanOfMembers, NoiseConditionalEnsemble
from fdsm.noise import Geometric, LogUniform
from fdsm.objectives import AnnealedDSM
from fdsm.samplers import annealed_langevin

torch.manual_seed(0)
digits = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
digits = digits[torch.randperm(len(digits))]
train, held_out = digits[:1397], digits[1397:]

model = MeanOfMembers(NoiseConditionalEnsemble(64, members=1, width=256))
score = score_of(model)

# %%
# Training
# --------
# The loss is per dimension. It is 1 for a model that knows nothing.

objective = AnnealedDSM(LogUniform(3.0, 0.1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1200)
for step in range(1, 1201):
    x = train[torch.randint(len(train), (128,))]
    loss = objective(score, x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 400 == 0:
        losses = [objective(score, rows).mean().item() for rows in (train, held_out)]
        print(f"step {step:5}  loss {losses[0]:.3f}, held-out {losses[1]:.3f}")

# %%
# Samples
# -------
# Annealed Langevin dynamics, from the largest noise level to the smallest.

levels = Geometric(3.0, 0.1, 20).levels
samples = annealed_langevin(
    score, 3 * torch.randn(400, 64), levels, steps=20, step_size=1e-3, denoise=True
)


def tiles(images: torch.Tensor, count: int = 6) -> torch.Tensor:
    """Return images side by side, with a margin."""
    padded = torch.nn.functional.pad(
        images[: count**2].view(count, count, 8, 8), (1, 1, 1, 1), value=-1
    )
    return padded.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)


fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.5), layout="constrained")
for ax, images, title in zip(axes, (held_out, samples), ("digits", "samples"), strict=True):
    ax.imshow(tiles(images).numpy(), cmap="gray_r", vmin=-1, vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
plt.show()

# %%
# How good are they?
# ------------------
# A random forest learns to tell 400 images from 400 held-out digits, with pixels rounded to their
# seventeen values. An area under the ROC curve of 0.5 means that it cannot, and 1 that it always
# can. Training digits are the best case, and samples of a fitted Gaussian a simple model. The
# samples are closer to digits than those of the Gaussian, but the forest still recognizes most of
# them.

gaussian = fit_gaussian(train)
normal = torch.distributions.MultivariateNormal(gaussian.means[0], gaussian.covariances[0])
kinds = {"training digits": train[:400], "samples": samples, "Gaussian": normal.sample((400,))}
for name, images in kinds.items():
    rows = (8 * torch.cat([held_out, images]).clamp(-1, 1)).round().numpy()
    forest = RandomForestClassifier(random_state=0)
    auc = cross_val_score(forest, rows, [0] * 400 + [1] * 400, cv=4, scoring="roc_auc").mean()
    nearest = torch.cdist(images.float(), train[400:]).amin(1).median()
    print(f"{name:15}  AUC {auc:.3f}, median distance to the nearest other digit {nearest:.2f}")
