"""Table 2: what its rows are compared by, and its published setting."""

from dataclasses import replace

import torch
from torch import Generator, nn

from fdsm.data import Dataset
from fdsm.paper.tables import table2 as deep_ebm
from fdsm.recipes.ebm import EBM
from fdsm.recipes.networks import ResNet


def images(row: EBM) -> Dataset:
    """Return a few images of noise in the place of digits."""
    generator = Generator().manual_seed(0)
    rows = torch.randint(0, 256, (12, 1, 28, 28), dtype=torch.uint8, generator=generator)
    return Dataset(rows, rows, rows, row.data.transform.fit(rows), {})


def network(row: EBM, width: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return ResNet(width, gain=1.8).build(images(row).shape)


def test_the_first_validation_number_is_the_objective() -> None:
    """It is what decides when to stop; without a validation_metric it is the only one."""
    row = replace(deep_ebm.CPU[2], validation_rows=6)
    data, model = images(row), network(row)
    assert next(iter(row.validate(model, data, Generator()))) == "loss"
    row = replace(row, validation_metric=None)
    found = row.validate(model, data, Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    x = data.transform.sample(data.validation[:6], generator)
    assert found == {"loss": row.objective(model, x, generator=generator).mean().item()}
