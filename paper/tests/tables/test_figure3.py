"""Samples of Figure 3: from a known density, and with the published settings."""

from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.serialize import to_json
from paper.recipes import EBM
from paper.tables import figure3


class Blurred(nn.Module):
    """The log-density of a single image with noise of level 0.1."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()
        self.image = image

    def forward(self, x: Tensor) -> Tensor:
        return -(x - self.image).square().flatten(1).sum(1) / (2 * 0.1**2)


@pytest.mark.parametrize("row", [figure3.CPU[0], figure3.PAPER[0]], ids=["cpu", "paper"])
def test_samples_are_the_image_without_its_noise(row: EBM, generator: Generator) -> None:
    """The last step denoises. For a single image it removes all noise."""
    image = torch.rand(1, 2, 2, generator=generator)
    short = replace(row.tempering.schedule, hold=5, anneal=5, cool=5)
    row = replace(row, tempering=replace(row.tempering, schedule=short))
    drawn = row.sample(Blurred(image), image.shape, 3, generator, lambda steps: steps)
    torch.testing.assert_close(drawn, image.expand(3, 1, 2, 2))


def test_published_rows_have_the_published_sampler() -> None:
    for row in figure3.PAPER:
        temperatures = row.tempering.schedule.values
        assert len(temperatures) == 2700
        assert (temperatures[0], temperatures[2499], temperatures[-1]) == (100.0, 1.0, 0.0)
        assert (row.tempering.step, row.tempering.sigma) == (0.02, 0.1)
        assert (row.plan.iterations, row.plan.batch, row.plan.num_samples) == (300_000, 128, 100)


def test_images_of_celeba_are_every_second_pixel_of_64() -> None:
    face = next(row for row in figure3.PAPER if row.name == "CelebA FD-DSM")
    described = to_json(face.data)
    assert isinstance(described, dict)
    assert (described["size"], described["stride"]) == (64, 2)
    with torch.device("meta"):
        parameters = sum(p.numel() for p in face.build(torch.Size([3, 32, 32])).parameters())
    assert parameters == 62_336_770 + 2 * 9 * 128  # two more channels for the first convolution


def test_provenance_states_iterations_and_langevin_steps() -> None:
    assert [row.name for row in figure3.CPU] == [row.name for row in figure3.PAPER]
    for row in figure3.PAPER:
        assert f"{row.plan.iterations:,} iterations" in row.provenance
    for row in figure3.CPU:
        plan = f"{row.plan.iterations:,} iterations with a batch size of {row.plan.batch}"
        assert plan in row.provenance
        steps = len(row.tempering.schedule.values)
        assert f"{steps:,} steps of Langevin dynamics" in row.provenance
