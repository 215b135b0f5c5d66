"""Lightning and Accelerate
========================

An objective is a function of a model and a batch, so it fits into every training framework. This
page trains one model in a plain loop, in a module of Lightning and with Accelerate, and all three
have the same losses. The page needs ``pip install lightning accelerate``.
"""

# %%
# Data, model and a plain loop
# ----------------------------
# Random numbers come from a generator, so that all three loops draw the same directions.

import logging
import warnings

import lightning
import matplotlib.pyplot as plt
import torch
from accelerate import Accelerator
from torch import Generator, Tensor
from torch.utils.data import DataLoader, TensorDataset

from fdsm import SSM
from fdsm.models import GaussianTailMLP

data = torch.randn(100 * 128, 2, generator=Generator().manual_seed(0))
data[:, 1] += data[:, 0].square()  # a banana
batches = DataLoader(TensorDataset(data), batch_size=128)
objective = SSM(directions=4)


def new_model() -> GaussianTailMLP:
    """Return an untrained model, the same at every call."""
    torch.manual_seed(0)
    return GaussianTailMLP(2, widths=(64, 64))


model, generator = new_model(), Generator().manual_seed(0)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
plain = []
for (x,) in batches:
    loss = objective(model, x, generator=generator).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    plain.append(loss.item())

# %%
# Lightning
# ---------
# The objective goes into ``training_step``.


class ScoreMatching(lightning.LightningModule):
    """A density and its objective."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.random = new_model(), Generator().manual_seed(0)
        self.losses: list[float] = []

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """Return the loss of a batch."""
        loss = objective(self.model, batch[0], generator=self.random).mean()
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


warnings.filterwarnings("ignore", module="lightning")  # it uses what torch will remove
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
module = ScoreMatching()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(module, batches)

# %%
# Accelerate
# ----------
# ``prepare`` wraps model and optimizer, and ``backward`` replaces that of the loss.

accelerator = Accelerator(cpu=True)
model, generator = new_model(), Generator().manual_seed(0)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
model, optimizer = accelerator.prepare(model, optimizer)
accelerated = []
for (x,) in batches:
    loss = objective(model, x.to(accelerator.device), generator=generator).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerated.append(loss.item())

# %%
# The same numbers
# ----------------
# For several processes see :ref:`sphx_glr_gallery_ddp.py`: objectives that take gradients
# themselves, such as ``DSM``, have to be inside the module that is wrapped.

assert plain == module.losses == accelerated
print(f"losses of {len(plain)} steps are equal; the last is {plain[-1]:.4f}")

fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
ax.plot(plain, "k", lw=5, alpha=0.3, label="plain loop")
ax.plot(module.losses, "C0", label="Lightning")
ax.plot(accelerated, "C1--", label="Accelerate")
ax.set(xlabel="step", ylabel="loss of the batch")
ax.legend()
plt.show()
