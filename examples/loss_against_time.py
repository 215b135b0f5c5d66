"""Loss against time
=================

Sliced score matching of one model with three engines: finite differences (FD-SSM), nested autograd
(SSM) and Taylor mode. All take the same steps on the same rows and directions, so they reach the
same loss. What differs is the time.
"""

# %%
# A density in sixteen dimensions
# -------------------------------
# Two Gaussians. The loss of the true density on held-out rows is the best that a model can reach.

import time

import matplotlib.pyplot as plt
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from fdsm import SSM, Autodiff, FiniteDifference, Sphere, Taylor
from fdsm.evaluation import exact_sm_loss
from fdsm.models import GaussianTailMLP

torch.manual_seed(0)
torch.set_num_threads(1)
centers, widths = torch.tensor([[-0.7], [0.7]]).expand(2, 16), torch.full((2, 16), 0.6)
components = Independent(Normal(centers, widths), 1)
truth = MixtureSameFamily(Categorical(torch.ones(2)), components)
data, held_out = truth.sample((20_000,)), truth.sample((1000,))
best = exact_sm_loss(truth, held_out).value

# %%
# Three trainings
# ---------------
# Evaluation does not count as time. ``process_time`` is that of this process only, so other
# programs on the machine disturb it little.


def train(objective: SSM, steps: int = 400) -> tuple[list[float], list[float]]:
    """Return seconds of training and the exact loss on held-out rows, every twenty steps."""
    torch.manual_seed(1)
    model = GaussianTailMLP(16, widths=(256, 256), gain=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    seconds, losses, spent = [], [], 0.0
    for step in range(steps + 1):
        if step % 20 == 0:
            seconds.append(spent)
            losses.append(exact_sm_loss(model, held_out).value)
        start = time.process_time()
        x = data[torch.randint(len(data), (128,))]
        loss = objective(model, x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        spent += time.process_time() - start
    return seconds, losses


objectives = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1), directions=4),
    "SSM (autograd)": SSM(Autodiff(), Sphere(0.1), directions=4),
    "Taylor-SSM": SSM(Taylor(), Sphere(0.1), directions=4),
}
curves = {name: train(objective) for name, objective in objectives.items()}
for name, (seconds, losses) in curves.items():
    print(f"{name:15} loss {losses[-1]:.2f} after {seconds[-1]:.1f} s")
print(f"truth           loss {best:.2f}")

# %%
# The difference to the loss of the truth is the Fisher divergence, so it is positive up to the
# noise of the held-out rows.

fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name, (seconds, losses) in curves.items():
    ax.semilogy(seconds, [loss - best for loss in losses], ".-", label=name)
ax.set(xlabel="CPU seconds of training", ylabel="loss above that of the truth")
ax.legend()
plt.show()
