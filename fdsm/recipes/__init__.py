"""Model families that can be trained: how to build, train, evaluate and sample each of them."""

from .autoencoder import VAE, WAE, Autoencoder
from .ebm import EBM, TemperedSampling, ValidationMetric
from .flow import Flow
from .frechet import ClassifierFeatures, Frechet, InceptionFeatures, RandomFeatures
from .image_autoencoder import ImageAutoencoder
from .kernel import KernelFamily
from .networks import MLP, ByShape, GaussianTail, Network, ResNet
from .ood_sources import HeldOut, OODSource, OtherDataset, Rotated, ShuffledFeatures
from .recipe import HasLogDensity, HasObjective, Recipe, TrainingPlan
from .score_network import ScoreNetwork

__all__ = [
    "EBM",
    "MLP",
    "VAE",
    "WAE",
    "Autoencoder",
    "ByShape",
    "ClassifierFeatures",
    "Flow",
    "Frechet",
    "GaussianTail",
    "HasLogDensity",
    "HasObjective",
    "HeldOut",
    "ImageAutoencoder",
    "InceptionFeatures",
    "KernelFamily",
    "Network",
    "OODSource",
    "OtherDataset",
    "RandomFeatures",
    "Recipe",
    "ResNet",
    "Rotated",
    "ScoreNetwork",
    "ShuffledFeatures",
    "TemperedSampling",
    "TrainingPlan",
    "ValidationMetric",
]
