"""Write the picture of the README: `python tools/picture.py docs/_static/density.png`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn

from fdsm import SSM
from fdsm.derivatives import score_of
from fdsm.samplers import langevin

BLUE, DARK = "#2a6fbb", "#16324f"
LIMITS = (-2.1, 2.1)


class Density(nn.Module):
    """A network minus a quadratic term, so that the density can be normalized."""

    def __init__(self) -> None:
        super().__init__()
        first, second = nn.Linear(2, 128), nn.Linear(128, 128)
        last = nn.Linear(128, 1, bias=False)
        self.network = nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), last)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, 2) -> (B,)`."""
        return self.network(x).squeeze(1) - x.square().sum(1) / 2


def trained_density(data: Tensor, steps: int = 4000) -> Density:
    """Train an energy by sliced score matching in Taylor mode, the default engine."""
    density, objective = Density(), SSM(directions=2)
    optimizer = torch.optim.Adam(density.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = data[torch.randint(len(data), (256,))]
        loss = objective(density, x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return density


def main() -> None:
    """Train for half a minute and write three panels: data, density with its score, samples."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    moons = torch.from_numpy(make_moons(20_000, noise=0.12, random_state=0)[0]).float()
    data = (moons - moons.mean(0)) / moons.std(0)
    density = trained_density(data)
    samples = langevin(score_of(density), 1.5 * torch.randn(1500, 2), steps=3000, step_size=2e-3)

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
    titles = ("data", "log-density and score, learned by SSM", "samples by Langevin dynamics")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlim=LIMITS, ylim=LIMITS, xticks=[], yticks=[], aspect="equal")
        axis.set_title(title, fontsize=11, color=DARK)
    axes[0].scatter(*data[:1500].T, s=3, color=DARK, linewidths=0)
    axes[2].scatter(*samples.T, s=3, color=BLUE, linewidths=0)
    grid = torch.linspace(*LIMITS, 161)
    points = torch.cartesian_prod(grid, grid)
    with torch.no_grad():
        log_p = density(points).view(161, 161).T
    relative = (log_p - log_p.max()).clamp_min(-8)
    axes[1].contourf(grid, grid, relative, levels=24, cmap="Blues")
    coarse = torch.linspace(-1.9, 1.9, 17)
    places = torch.cartesian_prod(coarse, coarse)
    score = score_of(density)(places).detach()
    arrows = score / (1 + score.norm(dim=1, keepdim=True))
    axes[1].quiver(*places.T, *arrows.T, color=DARK, width=0.004, scale=22)
    figure.savefig(Path(sys.argv[1]), dpi=110, bbox_inches="tight", pad_inches=0.04)


if __name__ == "__main__":
    main()
