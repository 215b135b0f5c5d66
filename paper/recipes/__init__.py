"""Model families that can be trained: how to build, train, evaluate and sample each of them."""

from fdsm.models import VAE, WAE, ConvVAE, ConvWAE

from .autoencoder import Autoencoder, ImageAutoencoder
from .ebm import (
    EBM,
    HeldOut,
    OODSource,
    OtherDataset,
    ShuffledFeatures,
    TemperedSampling,
    ValidationMetric,
)
from .flow import Flow
from .frechet import Frechet, RandomFeatures, for_test, for_training, for_validation, images_of
from .images import image_recipe, padded_size
from .kernel import BASE_SCALE, KernelFamily, adapt_proposal
from .networks import (
    MLP,
    ByShape,
    DensityUNet,
    GaussianTail,
    Network,
    ResNet,
    ScoreUNet,
)
from .noise_conditional import NoiseConditionalEBM, NoiseConditionalScore
from .recipe import HasLogDensity, HasObjective, Recipe, TrainingPlan, require_parameters, seeded
from .score_network import ScoreNetwork

__all__ = [
    "BASE_SCALE",
    "EBM",
    "MLP",
    "VAE",
    "WAE",
    "Autoencoder",
    "ByShape",
    "ConvVAE",
    "ConvWAE",
    "DensityUNet",
    "Flow",
    "Frechet",
    "GaussianTail",
    "HasLogDensity",
    "HasObjective",
    "HeldOut",
    "ImageAutoencoder",
    "KernelFamily",
    "Network",
    "NoiseConditionalEBM",
    "NoiseConditionalScore",
    "OODSource",
    "OtherDataset",
    "RandomFeatures",
    "Recipe",
    "ResNet",
    "ScoreNetwork",
    "ScoreUNet",
    "ShuffledFeatures",
    "TemperedSampling",
    "TrainingPlan",
    "ValidationMetric",
    "adapt_proposal",
    "for_test",
    "for_training",
    "for_validation",
    "image_recipe",
    "images_of",
    "padded_size",
    "require_parameters",
    "seeded",
]
