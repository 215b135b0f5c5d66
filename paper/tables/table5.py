"""Noise-conditional score networks (Table 5 of the paper)."""

from dataclasses import replace

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.noise import Geometric
from fdsm.objectives import SSMVR, Annealed, AnnealedDSM
from fdsm.projections import Gaussian, Sphere
from fdsm.training import Adam, CosineSchedule

from ..data import CIFAR10, MNIST, Chain, Dequantize, Flip, Resize, Source
from ..features import ClassifierFeatures, InceptionFeatures
from ..recipes import Frechet, ScoreNetwork, TrainingPlan, for_training, for_validation


def _rows(data: Source, levels: Geometric) -> tuple[ScoreNetwork, ...]:
    finite, exact = SSMVR(FiniteDifference(), Sphere(0.1)), SSMVR(Autodiff(), Gaussian())
    return (
        ScoreNetwork(
            "SSMVR",
            Annealed(exact, levels),
            data,
            levels,
            provenance="Directions are Gaussian, as in the authors' code.",
        ),
        ScoreNetwork(
            "FD-SSMVR",
            Annealed(finite, levels),
            data,
            levels,
            provenance="The step size ε is 0.1, as in the authors' code. The paper gives none for "
            "this network.",
        ),
        ScoreNetwork("DSM", AnnealedDSM(levels), data, levels, provenance="Not in the paper."),
    )


_PAPER = (
    "Table 5, Sec. 6.4 and App. C.2. Other settings are those of Song and Ermon (2019), as in the "
    "authors' code: ten noise levels from 1 to 0.01, Adam with learning rate 1e-3, no average of "
    "the weights, 100 steps of size 2e-5 per level, and no denoising at the end. The FID compares "
    "50,000 samples with the training images, of which 1,000 are held out here for Figure 4. The "
    "last weights are evaluated. The published number belongs to one of many checkpoints, that of "
    "iteration 149,000 in the code; the paper does not say how it was chosen. The code does not "
    "round samples to bytes and uses TensorFlow's Inception. Here samples are rounded, and "
    "Inception is a port of it."
)
_CPU = (
    "Scale cpu: the network and objectives of Table 5 on MNIST at 14 × 14 instead of CIFAR-10. "
    "The width is a sixteenth. There are six noise levels from 1 to 0.05 and 750 iterations with "
    "a batch size of 32. The learning rate of Adam decays from 3e-3 to 0, and weights are "
    "averaged. Sampling takes 10 longer steps per level and a denoising step at the end. The "
    "activation is ELU, as published, which biases the gradients of SSMVR but not those of "
    "FD-SSMVR. The Fréchet distance uses features of a small classifier of digits and is not "
    "comparable with a published FID."
)

PAPER = tuple(
    replace(
        row,
        plan=TrainingPlan(200_000, 128, 100, 10_000, 5000, num_samples=100),
        distance=Frechet(InceptionFeatures(), 50_000, for_training, images=50_000),
        watched=Frechet(InceptionFeatures(), 1000, for_training, images=50_000),
        provenance=f"{row.provenance} {_PAPER}",
    )
    for row in _rows(
        CIFAR10(validation=0.02, transform=Chain((Dequantize(), Flip()))),
        Geometric(1.0, 0.01, 10),
    )
)
"""Table 5 as published, with DSM for comparison and FIDs of 1,000 samples for Figure 4(c).

Validation needs the weights of Inception. Without them set `plan.validate_every=0`, and evaluate
later.
"""

_DIGITS = Chain((Dequantize(), Resize(14)))
_CLASSIFIER = ClassifierFeatures(MNIST(transform=_DIGITS))

CPU = tuple(
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
        provenance=f"{row.provenance} {_CPU}",
    )
    for row in _rows(MNIST(transform=_DIGITS), Geometric(1.0, 0.05, 6))
)
"""MNIST at 14 × 14 with a sixteenth of the width, fewer levels and far fewer iterations."""
