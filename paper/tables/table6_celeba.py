"""Autoencoders with implicit encoders on CelebA (the second half of Table 6)."""

from dataclasses import replace

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.objectives import SSMVR
from fdsm.projections import Gaussian, Sphere
from fdsm.training import RMSprop

from ..data import Affine, CelebA, Chain, Jitter, Source, ToFloat
from ..features import InceptionFeatures
from ..recipes import ConvVAE, ConvWAE, Frechet, ImageAutoencoder, RandomFeatures, TrainingPlan
from .table6_mnist import TIMES_PROVENANCE, WAE_TIMES_PROVENANCE

_RANGE = Chain((ToFloat(), Affine(2.0, -1.0), Jitter(2 / 256)))
_PLAN = TrainingPlan(100_000, 128, 50, 2000, 5000)
_COMMON = (
    "Table 6, App. C.4 and the authors' code: four convolutions of 5 × 5 with 64 to 512 channels, "
    "32 latent variables and 32 noise variables, pixels from -1 to 1 with noise of ±1/256 and a "
    "fixed log standard deviation of -0.602, RMSprop with learning rate 1e-4, and a batch size of "
    "128. The data are split 70/10/20 at random. Training takes 100,000 iterations, as in the "
    "caption and the configurations. The appendix says 10,000. The FID compares 10,000 means of "
    "the decoder with 10,000 test images. The code uses another port of Inception."
)


def _rows(data: Source) -> tuple[ImageAutoencoder, ...]:
    finite, exact = SSMVR(FiniteDifference(), Sphere(0.1)), SSMVR(Autodiff(), Gaussian())
    vae, wae = f"{_COMMON} {TIMES_PROVENANCE}", f"{_COMMON} {WAE_TIMES_PROVENANCE}"
    return (
        ImageAutoencoder("CelebA VAE SSMVR", exact, ConvVAE, data, plan=_PLAN, provenance=vae),
        ImageAutoencoder("CelebA VAE FD-SSMVR", finite, ConvVAE, data, plan=_PLAN, provenance=vae),
        ImageAutoencoder("CelebA WAE SSMVR", exact, ConvWAE, data, plan=_PLAN, provenance=wae),
        ImageAutoencoder("CelebA WAE FD-SSMVR", finite, ConvWAE, data, plan=_PLAN, provenance=wae),
    )


PAPER = tuple(
    replace(row, distance=Frechet(InceptionFeatures(), 10_000))
    for row in _rows(CelebA(transform=_RANGE))
)
"""The CelebA half of Table 6 as published."""

_FACES = CelebA(
    size=32,
    part="img_align_celeba_part.zip",
    partition="list_eval_partition_part.txt",
    transform=_RANGE,
)
_CPU = (
    "Scale cpu: a part of the images at 32 × 32: 3,000 for training and validation, 900 for the "
    "test. The "
    "width is a quarter. Training takes 1,000 iterations with a batch size of 64 and learning "
    "rate 1e-3. The Fréchet distance uses random convolutions, because the weights of Inception "
    "are not part of this library, and is not comparable with a published FID."
)

CPU = tuple(
    replace(
        recipe,
        width=16,
        optimizer=RMSprop(1e-3),
        plan=TrainingPlan(1000, 64, 10, 100, 500),
        distance=Frechet(RandomFeatures(), 1000, name="frechet_random"),
        provenance=f"{recipe.provenance} {_CPU}",
    )
    for recipe in _rows(_FACES)
)
"""A part of CelebA at 32 × 32 with a quarter of the width and far fewer iterations."""
