"""Train a flow from another library by exact score matching, as it is.

Run it with `python examples/other_library.py`; it needs zuko and scikit-learn (`pip install`).
The flow is normalised, so that its likelihood tells whether score matching, which never uses it,
has learnt the density of the data: thirteen measurements of 178 wines.
"""

import torch
import zuko
from sklearn.datasets import load_wine
from torch import Tensor

from fdsm import SM, Taylor
from fdsm.evaluation import nll


def main() -> None:
    """Train for some seconds and compare the likelihood of held-out wines with a Gaussian's."""
    torch.manual_seed(0)
    wines = torch.tensor(load_wine().data, dtype=torch.float32)
    wines = (wines - wines.mean(0)) / wines.std(0)
    wines = wines[torch.randperm(len(wines))]
    train, held_out = wines[:130], wines[130:]

    flow = zuko.flows.MAF(
        features=13, transforms=3, hidden_features=(64, 64), activation=torch.nn.SiLU
    )
    density = lambda x: flow().log_prob(x)
    objective = SM(Taylor())  # all thirteen coordinates, no projections

    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3, weight_decay=1e-2)
    for step in range(1, 401):
        x = train + 0.3 * torch.randn_like(train)  # some noise against learning the wines by heart
        loss = objective(density, x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4d}   SM {loss.item():8.3f}   NLL {nll(density, held_out)}")
    print(f"a Gaussian of the same data      NLL {nll(gaussian(train), held_out)}")


def gaussian(x: Tensor) -> torch.distributions.MultivariateNormal:
    """Return the log-density of a Gaussian with the mean and covariance of the data."""
    return torch.distributions.MultivariateNormal(x.mean(0), x.T.cov()).log_prob


if __name__ == "__main__":
    main()
