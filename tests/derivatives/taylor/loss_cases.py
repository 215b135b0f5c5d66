"""Losses by Taylor and by Autodiff."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, Taylor
from fdsm.serialize import replace_fields
from fdsm.typing import Objective


def assert_same_loss(
    objective: Objective, f: Callable[..., Tensor], model: nn.Module, *inputs: Tensor
) -> None:
    """Check the losses of an objective by Taylor, and their gradients, against Autodiff."""
    truth, found = (
        loss_and_gradients(
            replace_fields(objective, "derivative", lambda _, e=engine: e), f, model, inputs
        )
        for engine in (Autodiff(), Taylor())
    )
    for a, b in zip(found, truth, strict=True):
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10 * scale)


def loss_and_gradients(
    objective: Objective, f: Callable[..., Tensor], model: nn.Module, inputs: tuple[Tensor, ...]
) -> list[Tensor]:
    losses = objective(f, *inputs, generator=Generator().manual_seed(3))
    weights = torch.linspace(0.5, 1.5, len(losses))
    gradients = torch.autograd.grad(
        losses @ weights, list(model.parameters()), retain_graph=True, materialize_grads=True
    )
    return [losses.detach(), *gradients]
