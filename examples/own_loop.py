"""Train an unnormalized density on your own tensor, in your own training loop.

Run it with `python examples/own_loop.py`. The data are a Gaussian mixture. Replace them with your
own tensor of shape `(N, *E)`. The check at the start shows whether the step size suits the model.
"""

import torch
from torch import nn

from fdsm import SSM, FiniteDifference, Sphere
from fdsm.evaluation import check_consistency


class Density(nn.Module):
    """A smooth network minus a quadratic term, so that the density can be normalized."""

    def __init__(self, features: int, width: int = 128) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-density up to a constant, shape `(B, D) -> (B,)`."""
        return self.network(x).squeeze(1) - x.square().sum(1) / 2


def main() -> None:
    """Train for 1,000 steps and print the loss of held-out data."""
    torch.manual_seed(0)
    data = torch.randn(10_000, 8) * 0.5 + torch.randint(2, (10_000, 1)) * 2 - 1
    train, held_out = data[:9000], data[9000:]
    model = Density(8)
    objective = SSM(FiniteDifference(), Sphere(0.1), directions=2)
    print(check_consistency(objective, model, train[:256]))

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(1, 1001):
        x = train[torch.randint(len(train), (128,))]
        loss = objective(model, x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            with torch.no_grad():
                validation = objective(model, held_out).mean()
            print(f"step {step:4d}   FD-SSM on held-out data {validation:8.3f} per dimension")


if __name__ == "__main__":
    main()
