"""Mixtures with noise, whose log-densities are known at every level."""

import math

import torch
from torch import Generator, Tensor, nn


class NoisyMixture(nn.Module):
    r"""The log-density of points of a mixture of isotropic Gaussians plus noise of any level.

    The errors `scale` and `drift` are zero in the truth: $(1 + scale) \log p + drift \log σ$.
    """

    def __init__(self, d: int, deviation: float = 0.4) -> None:
        super().__init__()
        draw = Generator().manual_seed(3)
        self.means = nn.Parameter(1.5 * torch.randn(3, d, generator=draw))
        self.logits = nn.Parameter(torch.tensor([0.3, -0.4, 0.8]))
        self.scale = nn.Parameter(torch.zeros(()))
        self.drift = nn.Parameter(torch.zeros(()))
        self.deviation = deviation

    def sample(self, n: int, generator: Generator) -> Tensor:
        kinds = self.logits.softmax(0).multinomial(n, replacement=True, generator=generator)
        noise = torch.randn(n, self.means.shape[1], generator=generator)
        return (self.means[kinds] + self.deviation * noise).detach()

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        log_p = self._log_joint(x, sigma).logsumexp(1)
        return (1 + self.scale) * log_p + self.drift * sigma.log()

    def score(self, x: Tensor, sigma: Tensor) -> Tensor:
        """The score in closed form: the mean of the scores of the components, given `x`."""
        posteriors = self._log_joint(x, sigma).softmax(1)
        return (posteriors @ self.means - x) / self._variance(sigma)

    def _variance(self, sigma: Tensor) -> Tensor:
        return (sigma**2 + self.deviation**2)[:, None]

    def _log_joint(self, x: Tensor, sigma: Tensor) -> Tensor:
        variance, d = self._variance(sigma), x.shape[1]
        distances = (x[:, None] - self.means).square().sum(2)
        kernels = -distances / (2 * variance) - d / 2 * (2 * math.pi * variance).log()
        return self.logits.log_softmax(0) + kernels


def mean_and_error(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean over the first dimension and its standard error."""
    return values.mean(0), values.std(0) / len(values) ** 0.5
