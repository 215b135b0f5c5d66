"""The scale of the paper: one step of every row, and studies with small counts.

The networks have the published size, with batches of two. The first step of Adam changes each
parameter with a gradient by the learning rate, and that of RMSprop by ten times as much.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator

from paper.data import Chain, Dataset
from paper.recipes import EBM, Autoencoder, Flow, ImageAutoencoder, KernelFamily, ScoreNetwork
from paper.run_store import RunStore
from paper.studies import figure1, figure2, lemma2, nce_mpf, sumo, table1_times, theorem2
from paper.studies.table1_times import DOUBLE_BACKWARD, METHODS
from paper.support.derivative_cost import Budget
from paper.tables import (
    figure3,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6_celeba,
    table6_mnist,
)
from paper.tests.recipes.recipe_cases import first_step

DIMENSIONS = {"Parkinsons": 15, "RedWine": 11, "WhiteWine": 11}
CHANNELS = {"SVHN": 3, "CIFAR-10": 3, "CelebA": 3, "MNIST": 1, "Fashion-MNIST": 1}


@pytest.fixture(autouse=True)
def _float32() -> None:
    torch.set_default_dtype(torch.float32)


def images(row: EBM) -> tuple[int, ...]:
    """Return the shape of the images of a row, whose name starts with that of its data."""
    first = row.name.split()[0]
    return (3, 128, 128) if first == "ImageNet" else (CHANNELS.get(first, 1), 32, 32)


DEEP = (
    *(replace(row, name=f"Table 2 {row.name}") for row in table2.PAPER),
    *table4.PAPER,
    *figure3.PAPER,
)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
@pytest.mark.parametrize("row", DEEP, ids=lambda row: row.name)
def test_first_step_of_deep_energy_based_models(row: EBM) -> None:
    """62 million parameters, or a quarter of that for ImageNet. Constants have no gradient."""
    shape = images(row)
    model, moved = first_step(row, shape)
    size = 15_969_282 if shape[1] == 128 else 62_336_770 + 9 * 128 * (shape[0] - 1)
    assert sum(p.numel() for p in model.parameters()) == size
    for name, p in model.named_parameters():
        g = 0.0 if p.grad is None else p.grad.abs().max().item()
        expected = row.optimizer.lr * g / (g + 1e-8)  # Adam's step for small gradients
        assert moved[name] == pytest.approx(expected, rel=0.01, abs=3e-8)
        assert g > 0 or not name.endswith("weight")


@pytest.mark.parametrize("row", table1.PAPER, ids=lambda row: row.name)
def test_first_step_of_kernel_families(row: KernelFamily, generator: Generator) -> None:
    d = DIMENSIONS[row.name.split()[0]]
    x = torch.randn(200, d, generator=generator)
    model, moved = first_step(row, (d,), Dataset(x, x, x, Chain(()), {}))
    networks = 3 * (2 * 30 * d + 2 * 30 * 30 + 2 * 30)  # two matrices by d, two by 30, two biases
    assert sum(p.numel() for p in model.parameters()) == 200 * d + networks + 3 + 3 + 1
    assert max(moved.values()) == pytest.approx(0.01, rel=0.01)
    assert min(moved.values()) > 0


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
@pytest.mark.parametrize("row", table3.PAPER, ids=lambda row: row.name)
def test_first_step_of_flows(row: Flow) -> None:
    model, moved = first_step(row, (784,))
    assert sum(p.numel() for p in model.parameters()) == 15_154_352
    assert max(moved.values()) == pytest.approx(row.optimizer.lr, rel=0.01)
    assert min(moved.values()) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("row", table5.PAPER, ids=lambda row: row.name)
def test_first_step_of_score_networks(row: ScoreNetwork) -> None:
    """The network is the same for images of 8 × 8, which are sixteen times faster."""
    model, moved = first_step(row, (3, 8, 8))
    assert sum(p.numel() for p in model.parameters()) == 30_117_635
    assert max(moved.values()) == pytest.approx(1e-3, rel=0.01)
    assert min(moved.values()) > 0


@pytest.mark.parametrize("row", table6_mnist.PAPER, ids=lambda row: row.name)
def test_first_step_of_autoencoders(row: Autoencoder) -> None:
    _, moved = first_step(row, (1, 28, 28))
    assert max(moved.values()) == pytest.approx(1e-2, rel=0.01)
    assert min(moved.values()) > 0


# The networks have kinks, and what is measured for the warning depends on the kernels of the CPU.
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
@pytest.mark.parametrize("row", table6_celeba.PAPER, ids=lambda row: row.name)
def test_first_step_of_convolutional_autoencoders(row: ImageAutoencoder) -> None:
    _, moved = first_step(row, (3, 64, 64))
    assert max(moved.values()) == pytest.approx(1e-3, rel=0.01)
    assert min(moved.values()) > 0


@pytest.mark.nightly
def test_graphs_at_the_published_width_are_those_of_a_narrow_network(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    wide, narrow = (study.run(store, 0, iter) for study in (figure1.PAPER, figure1.CPU))
    assert wide == narrow


@pytest.mark.usefixtures("tiny_table")
def test_taylor_mode_agrees_with_nested_autograd(tmp_path: Path) -> None:
    few = Budget(max_order=2, repeats=1)
    study = replace(
        figure2.PAPER, target="tiny", row="a", budget=few, cost_rows=2, checked_order=2
    )
    found = study.run(RunStore(tmp_path), 0, iter)
    assert found.numbers["Taylor against nested autograd"].value < 1e-10


@pytest.mark.usefixtures("tiny_table")
def test_angles_between_gradients_are_of_second_order(tmp_path: Path) -> None:
    cases = (replace(lemma2.PAPER.cases[0], row="a", target="tiny"),)
    study = replace(lemma2.PAPER, cases=cases, steps=(0.01, 0.02, 0.05), batch_size=5, batches=2)
    found = study.run(RunStore(tmp_path), 0, iter)
    assert found.numbers["exponent, FD-SSM"].value == pytest.approx(2, abs=0.1)


def test_descents_approach_the_optimum(tmp_path: Path) -> None:
    study = replace(theorem2.PAPER, iterations=60, descents=4)
    (panel,) = study.run(RunStore(tmp_path), 0, iter).panels
    for line in panel.lines:
        if not line.reference:
            assert line.y[-1] < 0.5 * 2**0.5  # they start at a distance of √2


@pytest.mark.nightly
def test_noise_of_one_sided_gradients_grows_as_one_over_the_step(tmp_path: Path) -> None:
    few = replace(nce_mpf.PAPER, steps=(0.005, 0.01, 0.1), training_steps=(0.01,))
    study = replace(few, iterations=2, batch=8, trainings=1)
    found = study.run(RunStore(tmp_path), 0, iter).numbers
    assert found["exponent of the noise, naive R"].value == pytest.approx(-1, abs=0.05)


def test_sumo_bound_is_tight_for_the_posterior_only(tmp_path: Path) -> None:
    study = replace(sumo.PAPER, rows=200, iterations=20, measure_every=10, batch=16, trainings=1)
    found = study.run(RunStore(tmp_path), 0, iter).numbers
    assert found["excess, posterior"].value == pytest.approx(0, abs=1e-8)
    assert found["excess, shrunk by 30 %"].value > 0


@pytest.mark.nightly
@pytest.mark.skipif("FDSM_DATA" not in os.environ, reason="FDSM_DATA is not set")
def test_ratios_of_step_times_are_those_of_the_times(tmp_path: Path) -> None:
    study = replace(table1_times.PAPER, steps=1, validations=1)
    found = study.run(RunStore(tmp_path), 0, iter)
    for data in study.data:
        times = {name: found.numbers[f"milliseconds, {name}, {data}"].value for name in METHODS}
        ratio = found.numbers[f"FD-SSM over {DOUBLE_BACKWARD}, {data}"].value
        assert ratio == pytest.approx(times["FD-SSM"] / times[DOUBLE_BACKWARD])
