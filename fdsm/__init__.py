"""Score matching in PyTorch, by finite differences, autodiff and Taylor series.

`loss = SSM(FiniteDifference(), Sphere(0.1))(model, x).mean()` is FD-SSM in your own loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import (
        data,
        derivatives,
        evaluation,
        models,
        noise,
        objectives,
        projections,
        samplers,
        training,
    )
    from .derivatives import Autodiff, FiniteDifference, Taylor
    from .noise import Arithmetic, ConstantNoise, Geometric
    from .objectives import (
        DSM,
        MLE,
        MPF,
        NCE,
        SM,
        SSM,
        SSMVR,
        SUMO,
        Annealed,
        AnnealedDSM,
        ApproximateBackprop,
        CurvaturePropagation,
        FisherInformation,
        GradientPenalty,
        MultiscaleDSM,
        NaiveFD,
        ScoreDSM,
        SlicedDSM,
        ViaScore,
    )
    from .projections import Gaussian, Rademacher, Sphere

_NAMES = {
    "derivatives": ("Autodiff", "FiniteDifference", "Taylor"),
    "noise": ("Arithmetic", "ConstantNoise", "Geometric"),
    "objectives": (
        "Annealed",
        "AnnealedDSM",
        "ApproximateBackprop",
        "CurvaturePropagation",
        "DSM",
        "FisherInformation",
        "GradientPenalty",
        "MLE",
        "MPF",
        "MultiscaleDSM",
        "NCE",
        "NaiveFD",
        "SM",
        "SSM",
        "SSMVR",
        "SUMO",
        "ScoreDSM",
        "SlicedDSM",
        "ViaScore",
    ),
    "projections": ("Gaussian", "Rademacher", "Sphere"),
}
"""What can be imported from here, and where it lives."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = (
    "data",
    "derivatives",
    "evaluation",
    "models",
    "noise",
    "objectives",
    "projections",
    "samplers",
    "training",
)

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
    "ApproximateBackprop",
    "Arithmetic",
    "Autodiff",
    "ConstantNoise",
    "CurvaturePropagation",
    "FiniteDifference",
    "FisherInformation",
    "Gaussian",
    "Geometric",
    "GradientPenalty",
    "MultiscaleDSM",
    "NaiveFD",
    "Rademacher",
    "ScoreDSM",
    "SlicedDSM",
    "Sphere",
    "Taylor",
    "ViaScore",
    "data",
    "derivatives",
    "evaluation",
    "models",
    "noise",
    "objectives",
    "projections",
    "samplers",
    "training",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import fdsm` does not load torch."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module 'fdsm' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return [*__all__, "__version__"]
