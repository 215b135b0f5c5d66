"""Autoencoders with implicit encoders on CelebA (the second half of Table 6).

Convolutions take the place of the perceptrons of `autoencoder_mnist`, pixels are normal given the
latent, and what is judged are the means that the decoder gives to latents of the prior.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Generator, Tensor, nn

from ..data import Dataset, Source
from ..evaluation import Measurement, mean_of
from ..models import DecoderCNN, GaussianDecoder, ImplicitEncoder, MultiInputCNN
from ..samplers import Progress
from ..training import OptimizerConfig, RMSprop
from ..typing import Objective, Step
from .frechet import Frechet, InceptionFeatures
from .implicit_autoencoder import (
    Implicit,
    Variational,
    Wasserstein,
    alternating,
    decoded,
    score_step,
    squared_error,
)
from .recipe import Recipe, TrainingPlan


class VAE(Variational):
    """The variational autoencoder of four convolutions; a deviation of 0.55 for every pixel."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        side = shape[-1]
        encoder = MultiInputCNN([shape, latent], latent, side, width, nn.ReLU)
        super().__init__(
            ImplicitEncoder(encoder, noise=latent),
            GaussianDecoder(DecoderCNN(latent, shape, width)),
            MultiInputCNN([latent, shape], latent, side, width),
        )


class WAE(Wasserstein):
    """The Wasserstein autoencoder of four convolutions."""

    def __init__(self, shape: torch.Size, latent: int, width: int) -> None:
        side = shape[-1]
        super().__init__(
            MultiInputCNN([shape], latent, side, width, nn.ReLU),
            GaussianDecoder(DecoderCNN(latent, shape, width)),
            MultiInputCNN([latent], latent, side, width),
        )


@dataclass(frozen=True)
class ImageAutoencoder(Recipe):
    """A convolutional autoencoder and how to train it.

    Attributes:
        name: The name of the row.
        objective: How the score of the latent is learnt.
        kind: `VAE` or `WAE`.
        data: Where the data comes from, square images with values from -1 to 1.
        latent: The length of the latent.
        width: The channels after the first convolution.
        optimizer: How to train both.
        plan: How long to train.
        distance: How the Fréchet distance of samples is measured.
        provenance: Where its settings come from.
    """

    name: str
    objective: Objective
    kind: Callable[[torch.Size, int, int], nn.Module]
    data: Source
    latent: int = 32
    width: int = 64
    optimizer: OptimizerConfig = RMSprop(1e-4)
    plan: TrainingPlan = TrainingPlan()
    distance: Frechet = Frechet(InceptionFeatures(), 10_000)
    provenance: str = field(default="", repr=False)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return encoder, decoder and score, untrained."""
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ValueError(
                f"these autoencoders are for square images, but an event has shape {tuple(shape)}"
            )
        return self.kind(shape, self.latent, self.width)

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step that trains the score, then the rest with that score."""
        auto = cast(Implicit, model)
        return alternating(auto, self.objective, self.optimizer, self.plan.iterations)

    def timed_part(self, step: Step) -> Step:
        """Return what of a step the published times are of: the part that trains the score."""
        return score_step(step)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return how badly validation rows are reconstructed, and the latent's spread."""
        x, z = self._encoded(model, data, data.validation[:1000], generator)
        reconstruction = squared_error(cast(Implicit, model), x, z).mean().item()
        return {"reconstruction": reconstruction, "latent_variance": z.var(0).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the Fréchet distance of samples and the squared error of test rows."""
        auto = cast(Implicit, model)
        with torch.no_grad():
            errors = [
                squared_error(auto, *self._encoded(model, data, rows, generator))
                for rows in torch.split(data.test, 500)
            ]
        draw = lambda n: decoded(auto, self.latent, n, generator)
        return {
            self.distance.name: self.distance(draw, data, generator.device),
            "reconstruction": mean_of(torch.cat(errors)),
        }

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the means that the decoder gives to latents of the prior."""
        return decoded(cast(Implicit, model), self.latent, n, generator)

    @torch.no_grad()
    def _encoded(
        self, model: nn.Module, data: Dataset, rows: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        x = data.transform.sample(rows.to(generator.device), generator)
        return x, cast(Implicit, model).encode(x, generator)
