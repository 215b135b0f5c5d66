"""The demonstration: digits that come with a dependency, learnt four ways in a minute or so.

DSM and FD-DSM learn one log-density from data with all amounts of noise, so that samples can be
drawn from nothing; SSM and FD-SSM learn that of data with a fixed amount. Each pair differs by
nothing but the derivative.
"""

from ..data import Affine, Chain, Digits, Noise
from ..derivatives import Autodiff, FiniteDifference
from ..noise import Arithmetic
from ..objectives import DSM, SSM, MultiscaleDSM, SlicedDSM
from ..projections import Sphere
from ..samplers import Temperatures
from ..training import Adam, Cosine
from ..typing import Objective
from .deep_ebm import DeepEBM, Tempering
from .networks import MLP
from .outside import Scrambled, Turned
from .recipe import Plan

_LEVELS = Arithmetic(0.05, 1.2)
_SCALED = Affine(1 / 16)

_OBJECTIVES: dict[str, Objective] = {
    "DSM": MultiscaleDSM(DSM(0.1), _LEVELS),
    "FD-DSM": MultiscaleDSM(SlicedDSM(0.1, FiniteDifference(), Sphere(0.1)), _LEVELS),
    "SSM": SSM(Autodiff(), Sphere(0.1)),
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
}

TABLE = tuple(
    DeepEBM(
        name,
        objective,
        Digits(transform=Chain((_SCALED, Noise(0.3)) if "SSM" in name else (_SCALED,))),
        MLP((256, 256, 256)),
        Adam(1e-3 if "SSM" in name else 3e-3, (0.9, 0.95), schedule=Cosine()),
        plan=Plan(2500, 128, 25, 500, 500),
        tempering=Tempering(Temperatures(50, 600, 150, 30.0), 0.05, 0.3 if "SSM" in name else 0.1),
        outside=(Turned(), Scrambled()),
    )
    for name, objective in _OBJECTIVES.items()
)
"""A row for each objective."""
