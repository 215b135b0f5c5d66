"""Optimizer settings compared with updates computed by hand."""

import pytest
import torch
from torch import Generator

from fdsm.training import Adam, GradientStep

from .loop_cases import Line


def test_weight_decay_is_decoupled(generator: Generator) -> None:
    line = Line(2.0)
    step = GradientStep(line.loss, line, Adam(0.1, weight_decay=0.5), iterations=1)
    step(torch.tensor([1.0]), generator)
    assert line.a.item() == pytest.approx(2 * (1 - 0.1 * 0.5) - 0.1, abs=1e-4)


def test_the_betas_are_used(generator: Generator) -> None:
    line = Line(0.0)
    step = GradientStep(line.loss, line, Adam(0.1, betas=(0.5, 0.75)), iterations=2)
    for x in (1.0, 3.0):
        step(torch.tensor([x]), generator)
    mean = (0.5 * 0.5 * 1 + 0.5 * 3) / 0.75
    square = (0.75 * 0.25 * 1 + 0.25 * 9) / (1 - 0.75**2)
    assert line.a.item() == pytest.approx(-0.1 - 0.1 * mean / square**0.5, rel=1e-4)
