"""One step of a recipe at its published size, and how far it went."""

from typing import cast

import torch
from torch import Generator, nn

from fdsm.data import Dataset
from fdsm.recipes.recipe import Recipe


def first_step(
    recipe: Recipe, shape: tuple[int, ...], data: Dataset | None = None
) -> tuple[nn.Module, dict[str, float]]:
    """Return the model after a step on two events, and how far each of its tensors moved."""
    torch.manual_seed(0)
    generator = Generator().manual_seed(0)
    model = recipe.build(torch.Size(shape))
    if data is not None:
        recipe.before_training(model, data, generator)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step = recipe.step(model, cast(Dataset, data))
    step(torch.rand(2, *shape, generator=generator), generator)
    moved = {name: (p - before[name]).abs().max().item() for name, p in model.named_parameters()}
    return model, moved
