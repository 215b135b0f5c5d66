"""Table 4: areas under the curve of models whose log-densities are known."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.data import Chain, Dataset, Transform
from fdsm.paper.tables import table4 as ood
from fdsm.recipes.ebm import EBM, HeldOut, OtherDataset


class Linear(nn.Module):
    """The log-density `x`, up to a constant."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(1)


@dataclass(frozen=True)
class Normal:
    """Rows of one number each, normal with some standard deviation."""

    scale: float
    seed: int
    transform: Transform = Chain(())

    def load(self) -> Dataset:
        generator = Generator().manual_seed(self.seed)
        rows = self.scale * torch.randn(40_000, 1, generator=generator)
        return Dataset(rows, rows, rows, self.transform, {})


def test_areas_are_those_of_normal_numbers(generator: Generator) -> None:
    r"""Of two normal numbers that with $s$ times the spread is further out, $2/π \arctan s$."""
    recipe = replace(
        ood.TABLE[0],
        data=Normal(1.0, 0),
        ood_sources=(
            HeldOut("svhn", 20_000),
            OtherDataset("wide", Normal(2.0, 1)),
            OtherDataset("far", Normal(1e9, 2)),
        ),
        ood_rows=20_000,
        reference_rows=40_000,
    )
    found = recipe.evaluate(Linear(), recipe.data.load(), generator)
    assert list(found) == ["ood_auc_svhn", "ood_auc_wide", "ood_auc_far"]
    for scale, metric in zip((1.0, 2.0, 1e9), found.values(), strict=True):
        assert metric.value == pytest.approx(2 / math.pi * math.atan(scale), abs=0.015)
        assert metric.settings["m"] == 2
        assert (metric.settings["inside"], metric.settings["outside"]) == (10_000, 10_000)


def test_what_is_typical_is_said_by_the_reference_rows(generator: Generator) -> None:
    """Training rows after them do not count."""
    data = Normal(1.0, 0).load()
    shifted = replace(data, train=torch.cat([data.train[:10_000], data.train[:10_000] + 9]))
    recipe = replace(
        ood.TABLE[0], ood_sources=(HeldOut("svhn", 2000),), ood_rows=2000, reference_rows=10_000
    )
    areas = [
        recipe.evaluate(Linear(), each, Generator().manual_seed(0))["ood_auc_svhn"].value
        for each in (data, shifted)
    ]
    assert areas[0] == areas[1]


def test_the_same_data_are_other_rows(generator: Generator) -> None:
    data = Normal(1.0, 0).load()
    assert torch.equal(HeldOut("same", 100).rows(data, generator), data.test[100:])


@pytest.mark.parametrize("table", [ood.TABLE, ood.PAPER])
def test_each_model_meets_every_data_set_of_its_kind(table: tuple[EBM, ...]) -> None:
    colour, grey = ["svhn", "cifar10", "imagenet"], ["mnist", "fashion"]
    own = ["svhn", "cifar10", "imagenet", *grey]
    for i, row in enumerate(table):
        assert row.name.endswith("FD-DSM" if i % 2 else " DSM")
        assert [each.name for each in row.ood_sources] == (colour if i < 6 else grey)
        same = [each for each in row.ood_sources if isinstance(each, HeldOut)]
        assert [each.name for each in same] == [own[i // 2]]
        assert same[0].after == row.ood_rows == 2000
        others = [each.source for each in row.ood_sources if isinstance(each, OtherDataset)]
        assert row.data not in others


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [("CIFAR-10 DSM", (3, 32, 32), 62_339_074), ("ImageNet DSM", (3, 128, 128), 15_969_282)],
)
def test_the_published_networks_have_their_size(
    name: str, shape: tuple[int, ...], parameters: int
) -> None:
    """The paper's 16.0 million for ImageNet, and 62.3 million."""
    row = next(row for row in ood.PAPER if row.name == name)
    with torch.device("meta"):
        model = row.build(torch.Size(shape))
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_sources_say_how_long(generator: Generator) -> None:
    for row in (*ood.TABLE, *ood.PAPER):
        assert f"{row.plan.iterations:,} iterations" in row.provenance
    for row in ood.TABLE:
        assert f"{row.reference_rows:,} training images" in row.provenance
