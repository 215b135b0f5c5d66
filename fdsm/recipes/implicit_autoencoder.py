r"""Autoencoders with implicit encoders, and how they are trained (Table 6 of the paper).

An encoder that is a sampler has no density, but what training needs of it is a score, learnt by
SSMVR or FD-SSMVR along the way: of $q(z|x)$ for the variational autoencoder, whose loss is

$$-\log p(x|z) - \log p(z) + \log q(z|x),$$

and of $q(z) = E_x q(z|x)$ for the Wasserstein autoencoder, whose encoder is deterministic and
whose loss is $‖x - \hat x(z)‖² + 10 \, KL(q(z) ‖ p(z))$. The gradient of the last term of either,
with respect to whatever made $z$, is that of $s(z)^T z$ with the score $s$ held fixed.
"""

from typing import cast

import torch
from torch import Generator, Tensor, nn

from ..models import BernoulliDecoder, GaussianDecoder, ImplicitEncoder
from ..tensors import dot
from ..training import AlternatingSteps, GradientStep, OptimizerConfig
from ..typing import Objective, Step

Likelihood = BernoulliDecoder | GaussianDecoder
"""A decoder that is a density of the data."""


class Variational(nn.Module):
    """An encoder that takes noise, a decoder, and the score of the latent given the data.

    Args:
        encoder: Makes latents of data and noise.
        decoder: The density of the data given a latent.
        score: The score of a latent given the data, `(B, latent), (B, *E) -> (B, latent)`.
    """

    def __init__(self, encoder: ImplicitEncoder, decoder: Likelihood, score: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.score = encoder, decoder, score

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a latent for every row."""
        return self.encoder.sample(x, generator)

    def condition(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return what the score of the latent is conditioned on."""
        return (x,)

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a divergence of the latent whose gradient is right."""
        return divergence - self.decoder.log_likelihood(x, z)


class Wasserstein(nn.Module):
    """An encoder without noise, a decoder, and the score of the latents of all data.

    Args:
        encoder: Makes latents of data, `(B, *E) -> (B, latent)`.
        decoder: The density of the data given a latent, of which the mean is trained.
        score: The score of all latents, `(B, latent) -> (B, latent)`.
    """

    weight = 10.0

    def __init__(self, encoder: nn.Module, decoder: Likelihood, score: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.score = encoder, decoder, score

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return the latent of every row."""
        return cast(Tensor, self.encoder(x))

    def condition(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return nothing: the score is that of all latents."""
        return ()

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a divergence of the latent whose gradient is right."""
        return self.weight * divergence + squared_error(self, x, z)


Implicit = Variational | Wasserstein
"""Either kind of autoencoder."""


def alternating(
    auto: Implicit, objective: Objective, optimizer: OptimizerConfig, iterations: int
) -> AlternatingSteps:
    """Return a step that trains the score, then encoder and decoder with that score.

    Args:
        auto: What to train.
        objective: How the score of the latent is learnt.
        optimizer: How to train both.
        iterations: How many steps there will be.

    Returns:
        The step, with the losses `score` and `model`.
    """

    def score_loss(x: Tensor, generator: Generator, progress: float) -> Tensor:
        z = auto.encode(x, generator).detach()
        return objective(auto.score, z, *auto.condition(x), generator=generator)

    def model_loss(x: Tensor, generator: Generator, progress: float) -> Tensor:
        z = auto.encode(x, generator)
        with torch.no_grad():
            score = auto.score(z, *auto.condition(x))
        return auto.loss(x, z, dot(score, z) + dot(z, z) / 2)

    rest = nn.ModuleList([auto.encoder, auto.decoder])
    return AlternatingSteps({
        "score": GradientStep(score_loss, auto.score, optimizer, iterations),
        "model": GradientStep(model_loss, rest, optimizer, iterations),
    })


def score_step(step: Step) -> Step:
    """Return the part of an `alternating` step that trains the score.

    The times of Table 6 are of it alone (Sec. 6.3).
    """
    return cast(AlternatingSteps, step).steps["score"]


def squared_error(auto: Implicit, x: Tensor, z: Tensor) -> Tensor:
    r"""Return $‖x - \hat x(z)‖²$, shape `(B,)`."""
    residual = x - auto.decoder(z)
    return dot(residual, residual)


@torch.no_grad()
def decoded(auto: Implicit, latent: int, n: int, generator: Generator) -> Tensor:
    """Return the means that the decoder gives to `n` latents of the prior, `(n, *E)`."""
    z = torch.randn(n, latent, device=generator.device, generator=generator)
    return cast(Tensor, auto.decoder(z))
