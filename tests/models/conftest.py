import pytest
import torch
from torch import Generator

from fdsm.models import DKEF

from .dkef_cases import D, Problem


@pytest.fixture
def problem(generator: Generator) -> Problem:
    x = torch.randn(40, D, generator=generator)
    model = DKEF(torch.randn(6, D, generator=generator), features=4, base_scale=1.5)
    with torch.no_grad():
        model.weight_logits.copy_(torch.tensor([0.3, -0.2, 0.5]))
    return Problem(model, x)
