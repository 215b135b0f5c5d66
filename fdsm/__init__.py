"""Score matching in PyTorch, with a choice of how to differentiate.

`loss = SSM(Taylor(), directions=4)(model, x).mean()` is sliced score matching in your own loop.
"""

from importlib import import_module
from importlib.util import find_spec

__version__ = "0.3.0"

_EXPORTS = {
    "derivatives": ("Autodiff", "FiniteDifference", "Taylor"),
    "objectives": (
        "DSM",
        "MLE",
        "SM",
        "SSM",
        "SSMVR",
        "Annealed",
        "MultiscaleDSM",
        "SlicedDSM",
    ),
    "operators": (
        "biharmonic",
        "directional_derivative",
        "divergence",
        "hessian_diagonal",
        "jvp",
        "laplacian",
        "partials",
    ),
    "projections": ("Gaussian", "Rademacher", "Sphere"),
    "evaluation": ("check",),
    "models": (),
    "noise": (),
    "samplers": (),
    "tables": ("ScoreMatchingDensity", "TableModel"),
    "training": (),
}
"""The public modules, and the names of each that can be imported from `fdsm` itself.

Type checkers read `__init__.pyi`. A test compares it with this table.
"""

_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted([*_EXPORTS, *_MODULE_OF])
if find_spec("pyarrow") is None:  # `help(fdsm)` and `from fdsm import *` import every name
    __all__ = [name for name in __all__ if name != "tables" and _MODULE_OF.get(name) != "tables"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import fdsm` does not load torch."""
    if name in _EXPORTS:
        return import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module 'fdsm' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return [*__all__, "__version__"]
