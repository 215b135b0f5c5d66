"""Score-matching objectives.

Every objective returns one loss per example and is divided by the dimension as in the paper: with
isotropic directions $E[J_{SSM}] = E[J_{SSMVR}] = J_{SM} / d$. The finite-difference form of an
objective is the same class with another derivative engine: FD-SSM is
`SSM(FiniteDifference(), Sphere(0.1))`.
"""

from .annealed import Annealed, AnnealedDSM, AnnealedSlicedDSM
from .contrastive import MPF, NCE, NaiveFD
from .denoising import DSM, MultiscaleDSM, ScoreDSM, SlicedDSM
from .directions import Sliced, average_over_directions
from .dual import DualDSM
from .exact import SM
from .flow import FlowMatching, LogitNormalTimes, MeanFlow, UniformTimes
from .fokker_planck import FokkerPlanck, ScoreFokkerPlanck
from .latent import SUMO
from .layerwise import ApproximateBackprop, CurvaturePropagation
from .likelihood import MLE
from .missing import GaussianProposal, MissingDSM
from .penalties import FisherInformation, GradientPenalty
from .sliced import SSM, SSMVR, ViaScore

__all__ = [
    "DSM",
    "MLE",
    "MPF",
    "NCE",
    "SM",
    "SSM",
    "SSMVR",
    "SUMO",
    "Annealed",
    "AnnealedDSM",
    "AnnealedSlicedDSM",
    "ApproximateBackprop",
    "CurvaturePropagation",
    "DualDSM",
    "FisherInformation",
    "FlowMatching",
    "FokkerPlanck",
    "GaussianProposal",
    "GradientPenalty",
    "LogitNormalTimes",
    "MeanFlow",
    "MissingDSM",
    "MultiscaleDSM",
    "NaiveFD",
    "ScoreDSM",
    "ScoreFokkerPlanck",
    "Sliced",
    "SlicedDSM",
    "UniformTimes",
    "ViaScore",
    "average_over_directions",
]
