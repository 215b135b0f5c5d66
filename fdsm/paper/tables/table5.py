"""Noise-conditional score networks (Table 5 of the paper)."""

from dataclasses import replace

from ...data import CIFAR10, MNIST, Chain, Dequantize, Flip, Resize, Source
from ...derivatives import Autodiff, FiniteDifference
from ...noise import Geometric
from ...objectives import SSMVR, Annealed, AnnealedDSM
from ...projections import Gaussian, Sphere
from ...recipes.frechet import (
    ClassifierFeatures,
    Frechet,
    InceptionFeatures,
    for_training,
    for_validation,
)
from ...recipes.recipe import TrainingPlan
from ...recipes.score_network import ScoreNetwork
from ...training import Adam, CosineSchedule


def _rows(data: Source, levels: Geometric) -> tuple[ScoreNetwork, ...]:
    finite, exact = SSMVR(FiniteDifference(), Sphere(0.1)), SSMVR(Autodiff(), Gaussian())
    return (
        ScoreNetwork("SSMVR", Annealed(exact, levels), data, levels, provenance=_EXACT),
        ScoreNetwork("FD-SSMVR", Annealed(finite, levels), data, levels, provenance=_FINITE),
        ScoreNetwork("DSM", AnnealedDSM(levels), data, levels, provenance=_OURS),
    )


_EXACT = "Directions are normal, as in the authors' code."
_FINITE = "ε is 0.1, as in the authors' code; the paper gives none for this network."
_OURS = "A row of ours, not of the paper."
_PUBLISHED = (
    "Table 5, Sec. 6.4 and App. C.2, for the rest Song and Ermon (2019) as in the authors' code: "
    "ten levels from 1 to 0.01, Adam with rate 1e-3, no average of the weights, 100 steps per "
    "level of size 2e-5, no denoising at the end. FID of 50,000 samples to the training images, "
    "of which 1,000 are held out here for Figure 4. The last weights are judged; the paper's "
    "number is of one checkpoint of many, that of iteration 149,000 in the code; how that was "
    "chosen is not said. The code does not round samples to bytes and has TensorFlow's Inception; "
    "here they are rounded, and Inception is its port."
)

PAPER = tuple(
    replace(
        row,
        plan=TrainingPlan(200_000, 128, 100, 10_000, 5000, num_samples=100),
        watched=Frechet(InceptionFeatures(), 1000, for_training, images=50_000),
        provenance=f"{row.provenance} {_PUBLISHED}",
    )
    for row in _rows(
        CIFAR10(validation=0.02, transform=Chain((Dequantize(), Flip()))),
        Geometric(1.0, 0.01, 10),
    )
)
"""Table 5 as published, with DSM for comparison; with FIDs of 1,000 samples for Figure 4(c).

The weights of Inception are needed from the start; without them train with
`plan.validate_every=0` and evaluate later.
"""

_DIGITS = Chain((Dequantize(), Resize(14)))
_CLASSIFIER = ClassifierFeatures(MNIST(transform=_DIGITS))
_SMALL = (
    "The network and objectives of Table 5 on MNIST at 14 × 14 in place of CIFAR-10, with a "
    "sixteenth of the width, six levels from 1 to 0.05, 750 batches of 32, Adam from 3e-3 to 0, "
    "averaged weights, and 10 longer steps per level with a denoising one at the end: what takes "
    "minutes on a core. ELU as published, with which the gradients of SSMVR are biased and those "
    "of FD-SSMVR are not. The distance is by the features of a small classifier of digits and "
    "compares with no published FID."
)

TABLE = tuple(
    replace(
        row,
        width=8,
        optimizer=Adam(3e-3, schedule=CosineSchedule()),
        plan=TrainingPlan(750, 32, 10, 150, 250, ema_decay=0.99, num_samples=64),
        steps=10,
        step_size=7.5e-4,
        denoise=True,
        distance=Frechet(_CLASSIFIER, 1000, name="frechet_classifier"),
        watched=Frechet(_CLASSIFIER, 100, for_validation, images=5000, name="frechet_classifier"),
        provenance=f"{row.provenance} {_SMALL}",
    )
    for row in _rows(MNIST(transform=_DIGITS), Geometric(1.0, 0.05, 6))
)
"""MNIST at 14 × 14 with a sixteenth of the width, fewer levels and far fewer iterations."""
