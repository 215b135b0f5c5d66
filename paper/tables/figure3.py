"""Samples of deep energy-based models (Figure 3 of the paper, left)."""

from dataclasses import replace

from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Objective

from ..data import MNIST, CelebA, Chain, FashionMNIST, Pad, Resize, Source, ToFloat
from ..recipes import EBM, ResNet, TemperedSampling, TrainingPlan
from .table2 import (
    DSM_VALIDATION,
    MULTISCALE_DSM,
    MULTISCALE_FD_DSM,
    MULTISCALE_PROVENANCE,
    NETWORK_PROVENANCE,
    STEP_SIZE_PROVENANCE,
)

_PAPER_IMAGES, _CPU_IMAGES = Chain((ToFloat(), Pad(32))), Chain((Resize(16), ToFloat()))

_CELEBA_NOTE = (
    "Images of CelebA are every second pixel of images of 64 × 64, as in the code, not a resized "
    "image. The split is the same as for the autoencoders."
)

_ROWS: tuple[tuple[str, Objective, Source, Source, str], ...] = (
    (
        "MNIST FD-DSM",
        MULTISCALE_FD_DSM,
        MNIST(0.0, transform=_PAPER_IMAGES),
        MNIST(1 / 60, transform=_CPU_IMAGES),
        STEP_SIZE_PROVENANCE,
    ),
    (
        "Fashion-MNIST FD-DSM",
        MULTISCALE_FD_DSM,
        FashionMNIST(0.0, transform=_PAPER_IMAGES),
        FashionMNIST(1 / 60, transform=_CPU_IMAGES),
        STEP_SIZE_PROVENANCE,
    ),
    (
        "CelebA FD-DSM",
        MULTISCALE_FD_DSM,
        CelebA(stride=2, transform=ToFloat()),
        CelebA(
            stride=2,
            part="img_align_celeba_part.zip",
            partition="list_eval_partition_part.txt",
            transform=_CPU_IMAGES,
        ),
        f"{STEP_SIZE_PROVENANCE} {_CELEBA_NOTE}",
    ),
    (
        "MNIST DSM",
        MULTISCALE_DSM,
        MNIST(0.0, transform=_PAPER_IMAGES),
        MNIST(1 / 60, transform=_CPU_IMAGES),
        "Not in the figure. It is included for comparison.",
    ),
)
"""Name, objective, data at the scales `paper` and `cpu`, and the provenance of the row."""


def _paper(name: str, objective: Objective, data: Source, note: str) -> EBM:
    sentences = (
        "Figure 3 and App. C.2.",
        NETWORK_PROVENANCE,
        MULTISCALE_PROVENANCE,
        note,
        "The batch size is 128 and sampling takes 2,700 steps of tempered Langevin dynamics, as "
        "in the scripts.",
    )
    return EBM(
        name,
        objective,
        data,
        ResNet(128),
        Adam(5e-5, (0.9, 0.95), clip=0.1, schedule=CosineSchedule()),
        plan=TrainingPlan(300_000, 128, 50, 0, 5000, num_samples=100),
        tempering=TemperedSampling(),
        ood_sources=(),
        sm_eval_rows=100,
        validation_metric=DSM_VALIDATION,
        provenance=" ".join(sentences),
    )


def _cpu(name: str, objective: Objective, data: Source, note: str) -> EBM:
    paper = _paper(name, objective, data, note)
    return replace(
        paper,
        network=ResNet(8, gain=1.8),
        optimizer=Adam(2e-3, (0.9, 0.95), clip=1.0, schedule=CosineSchedule()),
        plan=TrainingPlan(3600, 64, 25, 200, 400, num_samples=64),
        tempering=TemperedSampling(Temperatures(50, 600, 150, 30.0), step=0.05),
        sm_eval_rows=50,
        validation_rows=100,
        provenance=paper.provenance
        + " Scale cpu: images of 16 × 16 and width 8. Initial weights of the convolutions are 1.8 "
        "times larger. The learning rate is 2e-3, for 3,600 iterations with a batch size of 64, "
        "and gradients are clipped at 1. Sampling takes 800 steps of Langevin dynamics, each 2.5 "
        "times as long, from a temperature of 30.",
    )


PAPER = tuple(_paper(name, objective, data, note) for name, objective, data, _, note in _ROWS)
"""The images of the paper, and images of MNIST by DSM for comparison."""

CPU = tuple(_cpu(name, objective, data, note) for name, objective, _, data, note in _ROWS)
"""The same with smaller images, a sixteenth of the width and minutes of training."""
