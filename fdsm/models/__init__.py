"""Models: modules whose forward pass is a log-density or a score."""

from .autoencoder import (
    BernoulliDecoder,
    Decoder,
    DecoderCNN,
    DecoderMLP,
    GaussianDecoder,
    ImplicitEncoder,
)
from .dkef import DKEF, DKEFDensity
from .gaussian_tail import GaussianTailMLP
from .layers import QuadraticHead, ShiftedSoftplus
from .mlp import QuadraticMLP
from .multi_input import MultiInputCNN, MultiInputMLP
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
    "DKEFDensity",
    "Decoder",
    "DecoderCNN",
    "DecoderMLP",
    "DifferencedEquations",
    "ExactEquations",
    "FullGradientEquations",
    "GaussianDecoder",
    "GaussianTailMLP",
    "ImplicitEncoder",
    "MultiInputCNN",
    "MultiInputMLP",
    "NormalEquations",
    "QuadraticHead",
    "QuadraticMLP",
    "QuadraticResNet",
    "RefineNet",
    "ShiftedSoftplus",
    "SlicedEquations",
]
