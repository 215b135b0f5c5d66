"""A flow of another library
=========================

A model of fdsm is any callable, and an object with ``log_prob`` is a log-density. Here a
normalizing flow of `zuko <https://zuko.readthedocs.io>`_ is trained by exact score matching. The
flow is normalized, so its likelihood, which the training does not use, shows whether it has
learned the density. The page needs ``pip install zuko``.
"""

# %%
# The data
# --------
# Three bananas: the last three of six columns depend on the squares of the first three. So the
# true likelihood is known.

import warnings

import matplotlib.pyplot as plt
import torch
import zuko
from torch import Tensor
from torch.distributions import Normal

from fdsm import MLE, SM, Taylor
from fdsm.derivatives import KinkWarning
from fdsm.evaluation import fit_gaussian, nll
from fdsm.typing import Objective

torch.manual_seed(0)
first = torch.randn(6000, 3)
data = torch.cat([first, first.square() - 1 + 0.5 * torch.randn(6000, 3)], 1)
train, held_out = data[:5000], data[5000:]


def truth(x: Tensor) -> Tensor:
    """Return the log-density of the bananas, shape `(B, 6) -> (B,)`."""
    z, y = x.chunk(2, dim=1)
    return (Normal(0, 1).log_prob(z) + Normal(z.square() - 1, 0.5).log_prob(y)).sum(1)


# %%
# Score matching and maximum likelihood
# -------------------------------------
# The loop is the same for both. In six dimensions exact score matching, ``SM``, is affordable: it
# needs no random directions. The flow bounds its scales by :math:`s / (1 + |s|)`. fdsm warns of
# ``abs``, but the slope of this function has no jump, so the warning can be ignored.

warnings.filterwarnings("ignore", category=KinkWarning)


def fit(objective: Objective, steps: int = 600) -> list[float]:
    """Return the negative log-likelihood of held-out rows, every twenty steps."""
    torch.manual_seed(0)
    flow = zuko.flows.MAF(
        features=6, transforms=3, hidden_features=(64, 64), activation=torch.nn.SiLU
    )
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    values = []
    for step in range(steps + 1):
        if step % 20 == 0:
            values.append(nll(flow(), held_out).value)
        x = train[torch.randint(len(train), (256,))]
        loss = objective(flow(), x).mean()  # flow() has log_prob
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return values


matched, likely = fit(SM(Taylor())), fit(MLE())
gaussian = nll(fit_gaussian(train), held_out).value
best = nll(truth, held_out, log_partition=0.0).value  # its integral is one
print(f"fitted Gaussian:    {gaussian:.2f} nats per row")
print(f"score matching:     {matched[-1]:.2f}")
print(f"maximum likelihood: {likely[-1]:.2f}")
print(f"truth:              {best:.2f}")

# %%
# Both end within half a nat of the truth, and about three nats below a Gaussian. Maximum
# likelihood is closer, because the likelihood is what it minimizes. Score matching also works for
# densities that cannot be normalized.

fig, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
steps = range(0, 601, 20)
ax.plot(steps, matched, ".-", label="score matching")
ax.plot(steps, likely, ".-", label="maximum likelihood")
ax.axhline(gaussian, color="k", ls=":", label="fitted Gaussian")
ax.axhline(best, color="k", ls="--", label="truth")
ax.set(xlabel="step", ylabel="NLL of held-out rows (nats)", ylim=(best - 0.5, gaussian + 2))
ax.legend()
plt.show()
