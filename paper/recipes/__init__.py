"""Model families that can be trained: how to build, train, evaluate and sample each of them."""

from fdsm.models import VAE, WAE, ConvVAE, ConvWAE
from .autoencoder import Autoencoder, ImageAutoencoder
from .ebm import (
    EBM,
    HeldOut,
    OODSource,
    OtherDataset,
    Rotated,
    ShuffledFeatures,
    TemperedSampling,
    ValidationMetric,
)
from .flow import Flow
from .frechet import Frechet, RandomFeatures, for_test, for_training, for_validation, images_of
from .kernel import BASE_SCALE, KernelFamily, adapt_proposal
from .networks import (
    MLP,
    ByShape,
    ConditionalMLP,
    ConditionalResNet,
    GaussianTail,
    Network,
    ResNet,
)
from .noise_conditional import CrossFittedEBM, NoiseConditionalEBM
from .presets import Preset, PresetError, choose_preset, prepare_source
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
    "ConditionalMLP",
    "ConditionalResNet",
    "ConvVAE",
    "ConvWAE",
    "CrossFittedEBM",
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
    "OODSource",
    "OtherDataset",
    "Preset",
    "PresetError",
    "RandomFeatures",
    "Recipe",
    "ResNet",
    "Rotated",
    "ScoreNetwork",
    "ShuffledFeatures",
    "TemperedSampling",
    "TrainingPlan",
    "ValidationMetric",
    "adapt_proposal",
    "choose_preset",
    "for_test",
    "for_training",
    "for_validation",
    "images_of",
    "prepare_source",
    "require_parameters",
    "seeded",
]
