"""Score matching in PyTorch, by finite differences and by autodiff.

`loss = SSM(FiniteDifference(), Sphere(0.1))(model, x).mean()` is FD-SSM in your own loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import derivatives, evaluation, noise, objectives, projections
    from .derivatives import Autodiff, FiniteDifference
    from .objectives import DSM, SM, SSM, SSMVR, SlicedDSM
    from .projections import Gaussian, Rademacher, Sphere

_HOMES = {
    "Autodiff": "derivatives",
    "DSM": "objectives",
    "FiniteDifference": "derivatives",
    "Gaussian": "projections",
    "Rademacher": "projections",
    "SM": "objectives",
    "SSM": "objectives",
    "SSMVR": "objectives",
    "SlicedDSM": "objectives",
    "Sphere": "projections",
}
_MODULES = ("derivatives", "evaluation", "noise", "objectives", "projections")

__all__ = [
    "DSM",
    "SM",
    "SSM",
    "SSMVR",
    "Autodiff",
    "FiniteDifference",
    "Gaussian",
    "Rademacher",
    "SlicedDSM",
    "Sphere",
    "derivatives",
    "evaluation",
    "noise",
    "objectives",
    "projections",
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
