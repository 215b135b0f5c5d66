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
from .implicit_autoencoder import (
    VAE,
    WAE,
    ConvVAE,
    ConvWAE,
    ImplicitAutoencoder,
    VariationalAutoencoder,
    WassersteinAutoencoder,
    sample_decoder,
    squared_error,
)
from .layers import QuadraticHead, ShiftedSoftplus
from .mlp import GaussianTailMLP, QuadraticMLP
from .multi_input import MultiInputCNN, MultiInputMLP
from .nice import NICE
from .noise_conditional import (
    AtNoiseLevel,
    MeanOfMembers,
    NoiseConditionalEnsemble,
    NoiseConditionalMLP,
    NoiseScaled,
    OneMember,
    ProductOfMembers,
)
from .normal_equations import (
    DifferencedEquations,
    ExactEquations,
    FullGradientEquations,
    Kernels,
    NormalEquations,
    SlicedEquations,
)
from .refinenet import RefineNet
from .resnet import QuadraticResNet

__all__ = [
    "DKEF",
    "NICE",
    "VAE",
    "WAE",
    "AtNoiseLevel",
    "BernoulliDecoder",
    "ConvVAE",
    "ConvWAE",
    "DKEFDensity",
    "Decoder",
    "DecoderCNN",
    "DecoderMLP",
    "DifferencedEquations",
    "ExactEquations",
    "FullGradientEquations",
    "GaussianDecoder",
    "GaussianTailMLP",
    "ImplicitAutoencoder",
    "ImplicitEncoder",
    "Kernels",
    "MeanOfMembers",
    "MultiInputCNN",
    "MultiInputMLP",
    "NoiseConditionalEnsemble",
    "NoiseConditionalMLP",
    "NoiseScaled",
    "NormalEquations",
    "OneMember",
    "ProductOfMembers",
    "QuadraticHead",
    "QuadraticMLP",
    "QuadraticResNet",
    "RefineNet",
    "ShiftedSoftplus",
    "SlicedEquations",
    "VariationalAutoencoder",
    "WassersteinAutoencoder",
    "sample_decoder",
    "squared_error",
]
