"""Samplers and estimators of normalizing constants, for log-densities and scores."""

from .ais import AnnealedWeights, ais, latent_log_likelihood_ais, sigmoid_schedule
from .ancestral import ancestral_sampling
from .bidirectional import (
    BidirectionalEstimate,
    LogPartitionWarning,
    bidirectional_log_partition,
)
from .chains import DivergenceWarning, Progress
from .hmc import Chains, hmc, leapfrog
from .importance import (
    GaussianMixtureProposal,
    LogPartition,
    MixtureProposal,
    importance_log_partition,
    importance_log_weights,
)
from .langevin import Temperatures, annealed_langevin, langevin, tempered_langevin
from .log_weights import LogMean, log_mean_exp
from .step_adaptation import StepAdaptation

__all__ = [
    "AnnealedWeights",
    "BidirectionalEstimate",
    "Chains",
    "DivergenceWarning",
    "GaussianMixtureProposal",
    "LogMean",
    "LogPartition",
    "LogPartitionWarning",
    "MixtureProposal",
    "Progress",
    "StepAdaptation",
    "Temperatures",
    "ais",
    "ancestral_sampling",
    "annealed_langevin",
    "bidirectional_log_partition",
    "hmc",
    "importance_log_partition",
    "importance_log_weights",
    "langevin",
    "latent_log_likelihood_ais",
    "leapfrog",
    "log_mean_exp",
    "sigmoid_schedule",
    "tempered_langevin",
]
