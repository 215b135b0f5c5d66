"""A small DKEF with data, for tests of the model and of its normal equations."""

from dataclasses import dataclass

from torch import Generator, Tensor

from fdsm.models import DKEF
from fdsm.typing import Projection

D = 3


@dataclass(frozen=True)
class Problem:
    model: DKEF
    x: Tensor

    def directions(self, projection: Projection) -> Tensor:
        return projection.sample(self.x, Generator().manual_seed(3))
