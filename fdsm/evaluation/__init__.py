"""Evaluation of models: losses, likelihood, out-of-distribution detection, FID, references."""

from .consistency import Consistency, check_consistency, gradient_angle
from .dormand_prince import SolverError
from .fid import Features, Moments, Pixels, feature_moments, fid, frechet_distance, unit_range
from .likelihood import UnnormalizedWarning, bits_per_dim, log_densities, nll
from .measurement import Measurement, mean_of, median_of
from .model_check import ModelCheck, check
from .ood import auc, ood_auc, ood_scores, typicality
from .probability_flow import (
    LogLikelihood,
    ProbabilityFlow,
    flow_of_log_density,
    flow_of_score,
    flow_of_velocity,
    log_likelihood,
)
from .reference_density import FittedDensity, fit_gaussian, fit_gaussian_mixture
from .score_matching import (
    exact_sm_loss,
    exact_sm_loss_of_score,
    fisher_divergence,
    relative_fisher_divergence,
    sm_losses,
    sm_losses_of_score,
)
from .timing import peak_saved_bytes, single_threaded, time_interleaved

__all__ = [
    "Consistency",
    "Features",
    "FittedDensity",
    "LogLikelihood",
    "Measurement",
    "ModelCheck",
    "Moments",
    "Pixels",
    "ProbabilityFlow",
    "SolverError",
    "UnnormalizedWarning",
    "auc",
    "bits_per_dim",
    "check",
    "check_consistency",
    "exact_sm_loss",
    "exact_sm_loss_of_score",
    "feature_moments",
    "fid",
    "fisher_divergence",
    "fit_gaussian",
    "fit_gaussian_mixture",
    "flow_of_log_density",
    "flow_of_score",
    "flow_of_velocity",
    "frechet_distance",
    "gradient_angle",
    "log_densities",
    "log_likelihood",
    "mean_of",
    "median_of",
    "nll",
    "ood_auc",
    "ood_scores",
    "peak_saved_bytes",
    "relative_fisher_divergence",
    "single_threaded",
    "sm_losses",
    "sm_losses_of_score",
    "time_interleaved",
    "typicality",
    "unit_range",
]
