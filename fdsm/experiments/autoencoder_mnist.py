r"""Autoencoders with implicit encoders (Table 6 of the paper), on binary MNIST.

An encoder that is a sampler has no density, but what training needs of it is a score, learnt by
SSMVR or FD-SSMVR along the way: of $q(z|x)$ for the variational autoencoder, whose loss is

$$-\log p(x|z) - \log p(z) + \log q(z|x),$$

and of $q(z) = E_x q(z|x)$ for the Wasserstein autoencoder, whose encoder is deterministic and
whose loss is $‖x - \hat x(z)‖² + 10 \, KL(q(z) ‖ p(z))$. The gradient of the last term of either,
with respect to whatever made $z$, is that of $s(z)^T z$ with the score $s$ held fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self, cast

import torch
from torch import Generator, Tensor, nn

from ..data import MNIST, Binarise, Chain, Dataset, Source, ToFloat
from ..derivatives import Autodiff, FiniteDifference
from ..evaluation import Measurement, mean_of
from ..models import BernoulliDecoder, DecoderMLP, ImplicitEncoder, JointMLP
from ..objectives import SSMVR
from ..projections import Gaussian, Sphere
from ..samplers import Progress, log_likelihood_ais, sigmoid_schedule
from ..tensors import dot
from ..training import Alternate, GradientStep, Optimiser, RMSprop
from ..typing import Objective, Step
from .recipe import Plan, Recipe


class VAE(nn.Module):
    """An encoder that takes noise, a decoder, and the score of the latent given the data."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        super().__init__()
        widths = (width, width)
        network = JointMLP([shape, latent], latent, widths)
        self.encoder = ImplicitEncoder(network, noise=latent)
        self.decoder = BernoulliDecoder(DecoderMLP(latent, shape, widths))
        self.score = JointMLP([latent, shape], latent, widths)

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a latent for every row."""
        return self.encoder.sample(x, generator)

    def condition(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return what the score of the latent is conditioned on."""
        return (x,)

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a divergence of the latent whose gradient is right."""
        return divergence - self.decoder.log_likelihood(x, z)


class WAE(nn.Module):
    """An encoder without noise, a decoder, and the score of the latents of all data."""

    weight = 10.0

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        super().__init__()
        widths = (width, width)
        self.encoder = JointMLP([shape], latent, widths)
        self.decoder = BernoulliDecoder(DecoderMLP(latent, shape, widths))
        self.score = JointMLP([latent], latent, widths)

    def encode(self, x: Tensor, generator: Generator) -> Tensor:
        """Return the latent of every row."""
        return cast(Tensor, self.encoder(x))

    def condition(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return nothing: the score is that of all latents."""
        return ()

    def loss(self, x: Tensor, z: Tensor, divergence: Tensor) -> Tensor:
        """Return the loss, given a divergence of the latent whose gradient is right."""
        residual = x - self.decoder(z)
        return self.weight * divergence + dot(residual, residual)


@dataclass(frozen=True)
class Autoencoder(Recipe):
    """An autoencoder and how to train it.

    Attributes:
        name: The name of the row.
        objective: How the score of the latent is learnt.
        kind: `VAE` or `WAE`.
        data: Where the data comes from.
        latent: The length of the latent.
        width: The width of the hidden layers.
        optimiser: How to train both.
        plan: How long to train.
        likelihood_rows: On how many test rows the likelihood is estimated.
        temperatures: How many temperatures that takes.
        chains: How many chains per image.
        first_step: Their first step.
        source: Where its settings come from.
    """

    name: str
    objective: Objective
    kind: Callable[[torch.Size, int, int], nn.Module]
    data: Source
    latent: int = 32
    width: int = 256
    optimiser: Optimiser = RMSprop(1e-3)
    plan: Plan = Plan()
    likelihood_rows: int = 10_000
    temperatures: int = 1000
    chains: int = 16
    first_step: float = 0.01
    source: str = field(default="", repr=False)

    def on(self, source: Source) -> Self:
        """Return the recipe for other images, made binary at random."""
        chain = Chain((source.transform, Binarise()))
        return replace(self, data=replace(source, transform=chain))  # type: ignore[type-var]

    def build(self, shape: torch.Size) -> nn.Module:
        """Return encoder, decoder and score, untrained."""
        if len(shape) != 3:
            raise ValueError(
                f"these autoencoders are for images, but an event has shape {tuple(shape)}: "
                "use deep_ebm, nice_mnist or dkef_uci for rows of numbers"
            )
        return self.kind(shape, self.latent, self.width)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step that trains the score, then the rest with that score."""
        auto = cast(VAE | WAE, model)

        def score_loss(x: Tensor, generator: Generator, done: float) -> Tensor:
            z = auto.encode(x, generator).detach()
            return self.objective(auto.score, z, *auto.condition(x), generator=generator)

        def model_loss(x: Tensor, generator: Generator, done: float) -> Tensor:
            z = auto.encode(x, generator)
            with torch.no_grad():
                score = auto.score(z, *auto.condition(x))
            return auto.loss(x, z, dot(score, z) + dot(z, z) / 2)

        rest = nn.ModuleList([auto.encoder, auto.decoder])
        return Alternate({
            "score": GradientStep(score_loss, auto.score, self.optimiser, self.plan.iterations),
            "model": GradientStep(model_loss, rest, self.optimiser, self.plan.iterations),
        })

    @torch.no_grad()
    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return how badly validation rows are reconstructed, in nats, and the latent's spread."""
        auto = cast(VAE | WAE, model)
        x = data.transform.draw(data.validation[:1000].to(generator.device), generator)
        z = auto.encode(x, generator)
        reconstruction = -auto.decoder.log_likelihood(x, z).mean().item()
        return {"reconstruction": reconstruction, "latent_variance": z.var(0).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the negative log-likelihood of binary test images, by annealed sampling."""
        auto = cast(VAE | WAE, model)
        x = data.transform.draw(data.test.to(generator.device), generator)
        z = auto.encode(x, generator).detach()
        rows = x[: self.likelihood_rows]
        with torch.no_grad():
            reconstruction = -auto.decoder.log_likelihood(x, z)
        found = [
            log_likelihood_ais(
                auto.decoder.log_likelihood,
                part,
                (self.latent,),
                chains=self.chains,
                temperatures=sigmoid_schedule(self.temperatures),
                step_size=self.first_step,
                generator=generator,
            ).value
            for part in torch.split(rows, 100)
        ]
        return {
            "nll": mean_of(
                -torch.cat(found), method="AIS", temperatures=self.temperatures, chains=self.chains
            ),
            "reconstruction": mean_of(reconstruction),
        }

    @torch.no_grad()
    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the means that the decoder gives to latents of the prior."""
        z = torch.randn(n, self.latent, device=generator.device, generator=generator)
        return cast(Tensor, cast(VAE | WAE, model).decoder(z))


_DATA = MNIST(validation=0.2, seed=2019, transform=Chain((ToFloat(), Binarise())))
_FINITE, _EXACT = SSMVR(FiniteDifference(), Sphere(0.1)), SSMVR(Autodiff(), Gaussian())
_PLAN = Plan(100_000, 128, 50, 2000, 5000)

PAPER = (
    Autoencoder("VAE FD-SSMVR", _FINITE, VAE, _DATA, plan=_PLAN),
    Autoencoder("VAE SSMVR", _EXACT, VAE, _DATA, plan=_PLAN),
    Autoencoder("WAE FD-SSMVR", _FINITE, WAE, _DATA, plan=_PLAN),
    Autoencoder("WAE SSMVR", _EXACT, WAE, _DATA, plan=_PLAN),
)
"""The MNIST half of Table 6 as published."""

TABLE = tuple(
    replace(
        recipe,
        plan=Plan(30_000, 128, 100, 3000, 3000),
        likelihood_rows=500,
        temperatures=500,
        chains=4,
        first_step=0.1,
    )
    for recipe in PAPER
)
"""The same networks with fewer iterations, and a likelihood of fewer images."""
