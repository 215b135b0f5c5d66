"""Train a normalizing flow of another library with exact score matching.

Run it with `python examples/other_library.py`. It needs `pip install zuko scikit-learn`. The
flow is normalized, so its likelihood shows whether score matching, which does not use it, has
learned the density of the data: thirteen measurements of 178 wines.
"""

import torch
import zuko
from sklearn.datasets import load_wine

from fdsm import SM, Taylor
from fdsm.evaluation import nll


def main() -> None:
    """Train for some seconds. Compare the likelihood of held-out wines with that of a Gaussian."""
    torch.manual_seed(0)
    wines = torch.tensor(load_wine().data, dtype=torch.float32)
    wines = (wines - wines.mean(0)) / wines.std(0)
    wines = wines[torch.randperm(len(wines))]
    train, held_out = wines[:130], wines[130:]

    flow = zuko.flows.MAF(
        features=13, transforms=3, hidden_features=(64, 64), activation=torch.nn.SiLU
    )
    objective = SM(Taylor())  # all thirteen coordinates, no random directions

    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3, weight_decay=1e-2)
    for step in range(1, 401):
        x = train + 0.3 * torch.randn_like(train)  # noise against overfitting
        loss = objective(flow(), x).mean()  # flow() has log_prob, so it is a log-density
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4d}   SM {loss.item():8.3f}   NLL {nll(flow(), held_out)}")
    gaussian = torch.distributions.MultivariateNormal(train.mean(0), train.T.cov())
    print(f"Gaussian fitted to the same data  NLL {nll(gaussian, held_out)}")


if __name__ == "__main__":
    main()
