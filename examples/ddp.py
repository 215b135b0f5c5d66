"""Several processes
=================

``DistributedLoss`` trains with DDP. Two processes with half of the rows each have the gradients of
one process with all rows. ``DistributedDataParallel(model)`` alone has not, if the objective takes
gradients itself, as denoising score matching does.
"""

# %%
# A script for torchrun
# ---------------------
# Each process has its own rows and its own generator. To compare with one process, this script
# saves the gradient of one batch.

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from fdsm import DSM
from fdsm.models import GaussianTailMLP

SCRIPT = """
import sys

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from fdsm import DSM
from fdsm.models import GaussianTailMLP
from fdsm.training.distributed import DistributedLoss

distributed.init_process_group("gloo")
rank, size = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
data, objective = torch.randn(64, 2), DSM(0.3)
x = data.chunk(size)[rank]

for name in ("DistributedLoss", "DistributedDataParallel"):
    torch.manual_seed(0)  # the same model in all processes
    model = GaussianTailMLP(2, widths=(32, 32))
    generator = torch.Generator().manual_seed(rank)
    if name == "DistributedLoss":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = DistributedLoss(objective, model, optimizer)(x, generator=generator)
    else:
        loss = objective(DistributedDataParallel(model), x, generator=generator).mean()
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.save(gradient, f"{sys.argv[1]}/{name}-{rank}.pt")
distributed.destroy_process_group()
"""

# %%
# Two processes
# -------------
# On the command line this is ``torchrun --nproc-per-node 2 script.py``.

with tempfile.TemporaryDirectory() as folder:
    script = Path(folder, "script.py")
    script.write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*torchrun, "--nproc-per-node=2", script, folder]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=one_thread, capture_output=True)
    gradients = {path.stem: torch.load(path) for path in sorted(Path(folder).glob("*.pt"))}

# %%
# One process
# -----------
# The same rows, with the noise that the two processes drew: the gradient of each half, and their
# mean.


def gradient_of(rank: int, rows: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the loss of some rows."""
    torch.manual_seed(0)
    model = GaussianTailMLP(2, widths=(32, 32))
    DSM(0.3)(model, rows, generator=torch.Generator().manual_seed(rank)).mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


torch.manual_seed(0)
halves = [gradient_of(rank, rows) for rank, rows in enumerate(torch.randn(64, 2).chunk(2))]
expected = (halves[0] + halves[1]) / 2

# %%
# The comparison
# --------------
# With ``DistributedLoss`` the gradients of both processes are those of one. With the model wrapped
# alone, each process has the gradient of its own rows.


def error(gradient: torch.Tensor, truth: torch.Tensor) -> float:
    """Return the relative error of a gradient."""
    return ((gradient - truth).norm() / truth.norm()).item()


for name, gradient in gradients.items():
    own = error(gradient, halves[int(name[-1])])
    print(f"{name}: {error(gradient, expected):.2g} from all rows, {own:.2g} from its own")

fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.4), layout="constrained", sharey=True)
for ax, name in zip(axes, ("DistributedLoss", "DistributedDataParallel"), strict=True):
    for rank in (0, 1):
        ax.plot(
            expected.numpy(),
            gradients[f"{name}-{rank}"].numpy(),
            ".",
            alpha=0.6,
            label=f"process {rank}",
        )
    ax.axline((0, 0), slope=1, color="k", lw=0.8)
    ax.set(xlabel="gradient of one process", title=name, xlim=(-0.4, 0.8), ylim=(-1, 1.6))
axes[0].set_ylabel("gradient of two processes")
axes[0].legend()
plt.show()
