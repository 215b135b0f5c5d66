"""Autoencoders with implicit encoders on binary MNIST (the first half of Table 6)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Generator, Tensor, nn

from ..data import Dataset, Source
from ..evaluation import Measurement, mean_of
from ..models import BernoulliDecoder, DecoderMLP, ImplicitEncoder, MultiInputMLP
from ..samplers import Progress, log_likelihood_ais, sigmoid_schedule
from ..training import OptimizerConfig, RMSprop
from ..typing import Objective, Step
from .implicit_autoencoder import Variational, Wasserstein, alternating, decoded, score_step
from .recipe import Recipe, TrainingPlan


class VAE(Variational):
    """The variational autoencoder of perceptrons with two hidden layers."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        widths = (width, width)
        super().__init__(
            ImplicitEncoder(MultiInputMLP([shape, latent], latent, widths), noise=latent),
            BernoulliDecoder(DecoderMLP(latent, shape, widths)),
            MultiInputMLP([latent, shape], latent, widths),
        )


class WAE(Wasserstein):
    """The Wasserstein autoencoder of perceptrons with two hidden layers."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        widths = (width, width)
        super().__init__(
            MultiInputMLP([shape], latent, widths),
            BernoulliDecoder(DecoderMLP(latent, shape, widths)),
            MultiInputMLP([latent], latent, widths),
        )


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
        optimizer: How to train both.
        plan: How long to train.
        likelihood_rows: On how many test rows the likelihood is estimated.
        temperatures: How many temperatures that takes.
        chains: How many chains per image.
        first_step: Their first step.
        provenance: Where its settings come from.
    """

    name: str
    objective: Objective
    kind: Callable[[torch.Size, int, int], nn.Module]
    data: Source
    latent: int = 32
    width: int = 256
    optimizer: OptimizerConfig = RMSprop(1e-3)
    plan: TrainingPlan = TrainingPlan()
    likelihood_rows: int = 10_000
    temperatures: int = 1000
    chains: int = 16
    first_step: float = 0.01
    provenance: str = field(default="", repr=False)

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
        return alternating(auto, self.objective, self.optimizer, self.plan.iterations)

    def timed_part(self, step: Step) -> Step:
        """Return what of a step the published times are of: the part that trains the score."""
        return score_step(step)

    @torch.no_grad()
    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return how badly validation rows are reconstructed, in nats, and the latent's spread."""
        auto = cast(VAE | WAE, model)
        x = data.transform.sample(data.validation[:1000].to(generator.device), generator)
        z = auto.encode(x, generator)
        reconstruction = -auto.decoder.log_likelihood(x, z).mean().item()
        return {"reconstruction": reconstruction, "latent_variance": z.var(0).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the negative log-likelihood of binary test images, by annealed sampling."""
        auto = cast(VAE | WAE, model)
        x = data.transform.sample(data.test.to(generator.device), generator)
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
        ais = {"temperatures": self.temperatures, "chains": self.chains}
        return {
            "nll": mean_of(-torch.cat(found), method="AIS", **ais),
            "reconstruction": mean_of(reconstruction),
        }

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the means that the decoder gives to latents of the prior."""
        return decoded(cast(VAE | WAE, model), self.latent, n, generator)
