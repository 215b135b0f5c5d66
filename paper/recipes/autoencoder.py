"""Autoencoders with implicit encoders: MLPs for binary images, convolutions for others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement, mean_of
from fdsm.models import ImplicitAutoencoder, sample_decoder, squared_error
from fdsm.samplers import Progress, latent_log_likelihood_ais, sigmoid_schedule
from fdsm.tensors import dot
from fdsm.training import AlternatingSteps, GradientStep, OptimizerConfig, RMSprop
from fdsm.typing import Objective, Step

from ..data import Dataset, Source
from .frechet import Frechet, RandomFeatures
from .recipe import Recipe, TrainingPlan


def alternating_steps(
    auto: ImplicitAutoencoder, objective: Objective, optimizer: OptimizerConfig, iterations: int
) -> AlternatingSteps:
    r"""Return a step that trains the score, then the encoder and decoder with that score.

    The gradient of $E \log q(z)$ with respect to the parameters of the encoder is that of
    $s(z)^T z$ with a fixed score $s$. Up to a constant, $-\log p(z)$ is $‖z‖²/2$.

    Args:
        auto: The autoencoder.
        objective: The objective of the score of the latents.
        optimizer: The optimizer of both parts.
        iterations: Number of training iterations.

    Returns:
        The step, with the losses `score` and `model`.
    """

    def score_loss(x: Tensor, generator: Generator, progress: float) -> Tensor:
        z = auto.encode(x, generator).detach()
        return objective(auto.score, z, *auto.score_conditions(x), generator=generator)

    def model_loss(x: Tensor, generator: Generator, progress: float) -> Tensor:
        z = auto.encode(x, generator)
        with torch.no_grad():
            score = auto.score(z, *auto.score_conditions(x))
        return auto.loss(x, z, dot(score, z) + dot(z, z) / 2)

    rest = nn.ModuleList([auto.encoder, auto.decoder])
    return AlternatingSteps({
        "score": GradientStep(score_loss, auto.score, optimizer, iterations),
        "model": GradientStep(model_loss, rest, optimizer, iterations),
    })


class _ImplicitAutoencoderRecipe(Recipe):
    """The parts that both recipes share: the step, its timed part, and samples."""

    objective: Objective
    optimizer: OptimizerConfig
    latent: int

    def step(self, model: nn.Module, data: Dataset) -> Step:
        """Return a step that trains the score, then the rest with that score."""
        auto = cast(ImplicitAutoencoder, model)
        return alternating_steps(auto, self.objective, self.optimizer, self.plan.iterations)

    def timed_part(self, step: Step) -> Step:
        """Return the step that trains the score. Table 6 gives its times (Sec. 6.3)."""
        return cast(AlternatingSteps, step).steps["score"]

    def sample(
        self, model: nn.Module, shape: torch.Size, n: int, generator: Generator, progress: Progress
    ) -> Tensor:
        """Return the decoder's means for latents of the prior."""
        return sample_decoder(cast(ImplicitAutoencoder, model), self.latent, n, generator)

    @torch.no_grad()
    def _encode(
        self, model: nn.Module, data: Dataset, rows: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        x = data.transform.sample(rows.to(generator.device), generator)
        return x, cast(ImplicitAutoencoder, model).encode(x, generator)


@dataclass(frozen=True)
class Autoencoder(_ImplicitAutoencoderRecipe):
    """An autoencoder of MLPs for binary images, evaluated by its likelihood.

    Attributes:
        name: Name of the recipe.
        objective: The objective of the score of the latents.
        kind: The model class, `VAE` or `WAE`.
        data: The data set.
        latent: Size of the latent.
        width: Width of the hidden layers.
        optimizer: The optimizer.
        plan: Length of the training.
        likelihood_rows: Number of test rows whose likelihood is estimated.
        temperatures: Number of temperatures of annealed importance sampling.
        chains: Number of chains per image.
        first_step: Initial step size of the chains.
        provenance: Source of the settings.
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
        """Return the untrained encoder, decoder and score."""
        if len(shape) != 3:
            raise ValueError(
                f"an autoencoder needs images, but an event has shape {tuple(shape)}. For tables "
                "use an energy-based model, a flow or a kernel family"
            )
        return self.kind(shape, self.latent, self.width)

    @torch.no_grad()
    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the reconstruction error in nats and the variance of the latents."""
        auto = cast(ImplicitAutoencoder, model)
        x, z = self._encode(model, data, data.validation[:1000], generator)
        reconstruction = -auto.decoder.log_likelihood(x, z).mean().item()
        return {"reconstruction": reconstruction, "latent_variance": z.var(0).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the negative log-likelihood of test images by annealed importance sampling.

        It is too high on average. Its error is that of the mean over images and does not include
        this bias; see `latent_log_likelihood_ais` for a check.
        """
        auto = cast(ImplicitAutoencoder, model)
        x = data.transform.sample(data.test.to(generator.device), generator)
        z = auto.encode(x, generator).detach()
        rows = x[: self.likelihood_rows]
        with torch.no_grad():
            reconstruction = -auto.decoder.log_likelihood(x, z)

        def log_likelihood(x: Tensor) -> Tensor:
            return latent_log_likelihood_ais(
                auto.decoder.log_likelihood,
                x,
                (self.latent,),
                chains=self.chains,
                temperatures=sigmoid_schedule(self.temperatures),
                step_size=self.first_step,
                generator=generator,
            ).value

        log_likelihoods = [log_likelihood(part) for part in torch.split(rows, 100)]
        ais = {"temperatures": self.temperatures, "chains": self.chains}
        return {
            "nll": mean_of(-torch.cat(log_likelihoods), method="AIS", **ais),
            "reconstruction": mean_of(reconstruction),
        }


@dataclass(frozen=True)
class ImageAutoencoder(_ImplicitAutoencoderRecipe):
    """An autoencoder of convolutions, evaluated by the Fréchet distance of its samples.

    Attributes:
        name: Name of the recipe.
        objective: The objective of the score of the latents.
        kind: The model class, `ConvVAE` or `ConvWAE`.
        data: The data set: square images with values from -1 to 1.
        latent: Size of the latent.
        width: Number of channels after the first convolution.
        optimizer: The optimizer.
        plan: Length of the training.
        distance: The Fréchet distance of samples.
        provenance: Source of the settings.
    """

    name: str
    objective: Objective
    kind: Callable[[torch.Size, int, int], nn.Module]
    data: Source
    latent: int = 32
    width: int = 64
    optimizer: OptimizerConfig = RMSprop(1e-4)
    plan: TrainingPlan = TrainingPlan()
    distance: Frechet = Frechet(RandomFeatures(), 10_000, name="frechet_random")
    provenance: str = field(default="", repr=False)

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained encoder, decoder and score."""
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ValueError(
                f"this autoencoder needs square images, but an event has shape {tuple(shape)}"
            )
        return self.kind(shape, self.latent, self.width)

    def validate(self, model: nn.Module, data: Dataset, generator: Generator) -> dict[str, float]:
        """Return the squared reconstruction error and the variance of the latents."""
        x, z = self._encode(model, data, data.validation[:1000], generator)
        reconstruction = squared_error(cast(ImplicitAutoencoder, model), x, z).mean().item()
        return {"reconstruction": reconstruction, "latent_variance": z.var(0).mean().item()}

    def evaluate(
        self, model: nn.Module, data: Dataset, generator: Generator
    ) -> dict[str, Measurement]:
        """Return the Fréchet distance of samples and the squared error of test rows."""
        auto = cast(ImplicitAutoencoder, model)
        with torch.no_grad():
            errors = [
                squared_error(auto, *self._encode(model, data, rows, generator))
                for rows in torch.split(data.test, 500)
            ]
        draw = lambda n: sample_decoder(auto, self.latent, n, generator)
        return {
            self.distance.name: self.distance(draw, data, generator.device),
            "reconstruction": mean_of(torch.cat(errors)),
        }
