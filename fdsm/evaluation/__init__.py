"""Evaluation of models: losses, likelihood, out-of-distribution detection, FID, references."""

from .classifier import Classifier, train_classifier
from .consistency import Consistency, check_consistency, gradient_angle
from .fid import Features, Moments, Pixels, feature_moments, fid, frechet_distance
from .inception import inception_features
from .likelihood import bits_per_dim, log_densities, nll
from .measurement import Measurement, mean_of, median_of
from .ood import auc, ood_auc, ood_scores, typicality
from .reference_density import FittedDensity, fit_gaussian, fit_gaussian_mixture
from .score_matching import (
    exact_sm_loss,
    exact_sm_loss_of_score,
    fisher_divergence,
    relative_fisher_divergence,
    sm_losses,
    sm_losses_of_score,
)

__all__ = [
    "Classifier",
    "Consistency",
    "Features",
    "FittedDensity",
    "Measurement",
    "Moments",
    "Pixels",
    "auc",
    "bits_per_dim",
    "check_consistency",
    "exact_sm_loss",
    "exact_sm_loss_of_score",
    "feature_moments",
    "fid",
    "fisher_divergence",
    "fit_gaussian",
    "fit_gaussian_mixture",
    "frechet_distance",
    "gradient_angle",
    "inception_features",
    "log_densities",
    "mean_of",
    "median_of",
    "nll",
    "ood_auc",
    "ood_scores",
    "relative_fisher_divergence",
    "sm_losses",
    "sm_losses_of_score",
    "train_classifier",
    "typicality",
]
