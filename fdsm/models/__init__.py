"""Models: plain modules whose forward pass is a log-density or a score."""

from .autoencoder import (
    BernoulliDecoder,
    Decoder,
    DecoderCNN,
    DecoderMLP,
    GaussianDecoder,
    ImplicitEncoder,
)
from .confined import ConfinedMLP
from .dkef import DKEF, DKEFDensity
from .joint import JointCNN, JointMLP
from .layers import QuadraticHead, ShiftedSoftplus
from .mlp import QuadraticMLP
from .nice import NICE
from .normal_equations import (
    DifferencedEquations,
    ExactEquations,
    FullGradientEquations,
    NormalEquations,
    SlicedEquations,
)
from .refinenet import RefineNet
from .resnet import QuadraticResNet

__all__ = [
    "DKEF",
    "NICE",
    "BernoulliDecoder",
    "ConfinedMLP",
    "DKEFDensity",
    "Decoder",
    "DecoderCNN",
    "DecoderMLP",
    "DifferencedEquations",
    "ExactEquations",
    "FullGradientEquations",
    "GaussianDecoder",
    "ImplicitEncoder",
    "JointCNN",
    "JointMLP",
    "NormalEquations",
    "QuadraticHead",
    "QuadraticMLP",
    "QuadraticResNet",
    "RefineNet",
    "ShiftedSoftplus",
    "SlicedEquations",
]
