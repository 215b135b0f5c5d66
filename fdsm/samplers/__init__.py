"""Samplers and estimators of normalisers: functions of a log-density or of a score."""

from .ais import AnnealedWeights, ais, log_likelihood_ais, sigmoid_schedule
from .chains import DivergenceWarning, Progress
from .hmc import Chains, hmc, leapfrog
from .importance import GaussianMixture, LogPartition, Mixture, Proposal, importance_log_partition
from .langevin import Temperatures, annealed_langevin, langevin, tempered_langevin
from .pace import Adaptation
from .weights import LogMean, log_mean_exp

__all__ = [
    "Adaptation",
    "AnnealedWeights",
    "Chains",
    "DivergenceWarning",
    "GaussianMixture",
    "LogMean",
    "LogPartition",
    "Mixture",
    "Progress",
    "Proposal",
    "Temperatures",
    "ais",
    "annealed_langevin",
    "hmc",
    "importance_log_partition",
    "langevin",
    "leapfrog",
    "log_likelihood_ais",
    "log_mean_exp",
    "sigmoid_schedule",
    "tempered_langevin",
]
