"""Table 4: AUCs of models with known log-densities, and the published settings."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator, Tensor, nn

from paper.data import Chain, Dataset, Transform
from paper.recipes import EBM, HeldOut, OtherDataset
from paper.tables import table4


class Linear(nn.Module):
    """The log-density `x`, up to a constant."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(1)


@dataclass(frozen=True)
class Normal:
    """Normal numbers with a given standard deviation, shape `(N, 1)`."""

    scale: float
    seed: int
    transform: Transform = Chain(())

    def load(self) -> Dataset:
        generator = Generator().manual_seed(self.seed)
        rows = self.scale * torch.randn(40_000, 1, generator=generator)
        return Dataset(rows, rows, rows, self.transform, {})


def test_auc_agrees_with_the_closed_form_for_normal_numbers(generator: Generator) -> None:
    r"""A number with $s$ times the standard deviation is larger in $2/π \arctan s$ of pairs."""
    recipe = replace(
        table4.CPU[0],
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


def test_typicality_uses_only_the_reference_rows(generator: Generator) -> None:
    """Training rows after the reference rows have no effect."""
    data = Normal(1.0, 0).load()
    shifted = replace(data, train=torch.cat([data.train[:10_000], data.train[:10_000] + 9]))
    recipe = replace(
        table4.CPU[0], ood_sources=(HeldOut("svhn", 2000),), ood_rows=2000, reference_rows=10_000
    )
    areas = [
        recipe.evaluate(Linear(), each, Generator().manual_seed(0))["ood_auc_svhn"].value
        for each in (data, shifted)
    ]
    assert areas[0] == areas[1]


def test_held_out_rows_do_not_overlap_with_the_first_test_rows(generator: Generator) -> None:
    data = Normal(1.0, 0).load()
    assert torch.equal(HeldOut("same", 100).rows(data, generator), data.test[100:])


@pytest.mark.parametrize("table", [table4.CPU, table4.PAPER])
def test_each_model_is_tested_on_every_data_set_of_its_kind(table: tuple[EBM, ...]) -> None:
    color, gray = ["svhn", "cifar10", "imagenet"], ["mnist", "fashion"]
    own = ["svhn", "cifar10", "imagenet", *gray]
    for i, row in enumerate(table):
        assert row.name.endswith("FD-DSM" if i % 2 else " DSM")
        assert [each.name for each in row.ood_sources] == (color if i < 6 else gray)
        same = [each for each in row.ood_sources if isinstance(each, HeldOut)]
        assert [each.name for each in same] == [own[i // 2]]
        assert same[0].after == row.ood_rows == 2000
        others = [each.source for each in row.ood_sources if isinstance(each, OtherDataset)]
        assert row.data not in others


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [("CIFAR-10 DSM", (3, 32, 32), 62_339_074), ("ImageNet DSM", (3, 128, 128), 15_969_282)],
)
def test_published_networks_have_the_published_size(
    name: str, shape: tuple[int, ...], parameters: int
) -> None:
    """The paper's 16.0 million for ImageNet, and 62.3 million."""
    row = next(row for row in table4.PAPER if row.name == name)
    with torch.device("meta"):
        model = row.build(torch.Size(shape))
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_provenance_states_iterations_and_reference_images() -> None:
    for row in table4.PAPER:
        assert f"{row.plan.iterations:,} iterations" in row.provenance
    for row in table4.CPU:
        plan = f"{row.plan.iterations:,} iterations with a batch size of {row.plan.batch}"
        assert plan in row.provenance
        assert f"mean over {row.reference_rows:,} training images" in row.provenance
