"""Deep energy-based models of MNIST (Table 2 of the paper)."""

from dataclasses import dataclass, replace

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.noise import Arithmetic
from fdsm.objectives import DSM, SSM, SSMVR, MultiscaleDSM, SlicedDSM, ViaScore
from fdsm.projections import Gaussian, Sphere
from fdsm.samplers import Temperatures
from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Objective

from ..data import MNIST, Chain, FashionMNIST, Noise, Pad, Resize, ToFloat, Transform
from ..recipes import (
    EBM,
    ByShape,
    OtherDataset,
    ResNet,
    TemperedSampling,
    TrainingPlan,
    ValidationMetric,
)

NETWORK_PROVENANCE = (
    "Network and optimizer: App. C.2 and the authors' scripts. The network has 18 convolutions of "
    "width 128. The optimizer is Adam(0.9, 0.95), gradients are clipped at a norm of 0.1, and the "
    "learning rate follows a cosine over 300,000 iterations. The activation is softplus - log 2, "
    "as in the final scripts. The paper says ELU. The second derivative of ELU is discontinuous, "
    "which biases double backward and violates the assumptions of Lemma 2."
)
"""Source of the settings of the deep energy-based models."""

MULTISCALE_PROVENANCE = (
    "Noise levels from 0.05 to 1.2 (App. C.2). The target uses the fixed level 0.1 and the "
    "weights are 0.1⁴/σ², as in the scripts and in Li et al. (2019). Eq. 2 at each level would "
    "define a different model. The learning rate is 5e-5."
)
"""Source of the settings of multi-scale denoising score matching."""

STEP_SIZE_PROVENANCE = (
    "The step size ε is 0.05, as in App. C.2 and the scripts. The main text says 0.1."
)
"""Source of the step size of finite differences."""

_SLICED_PROVENANCE = (
    "Noise of 0.005 is added to the training data and the learning rate is 1e-5, as in the "
    "scripts. The paper does not mention this noise, although it determines the loss: about "
    "-d/0.005² = -4e7."
)

_ONE_BY_ONE, _PARALLEL, _SPHERE = (
    FiniteDifference(parallel=False),
    FiniteDifference(),
    Sphere(0.05),
)
_LEVELS = Arithmetic(0.05, 1.2)
_SSMVR = ViaScore(SSMVR(Autodiff(), Gaussian()))

MULTISCALE_DSM = MultiscaleDSM(DSM(0.1), _LEVELS)
"""Multi-scale denoising score matching."""

MULTISCALE_FD_DSM = MultiscaleDSM(SlicedDSM(0.1, _PARALLEL, _SPHERE), _LEVELS)
"""Multi-scale denoising score matching with finite differences."""

DSM_VALIDATION = ValidationMetric("dsm", MULTISCALE_DSM)
"""Validation metric of all multi-scale objectives: the exact multi-scale DSM loss."""


@dataclass(frozen=True)
class _Family:
    """Settings shared by all objectives of a family.

    Attributes:
        lr: Learning rate at the scale of the paper.
        noise: Noise on the data at the scale of the paper.
        cpu_noise: Noise on the data at the scale `cpu`.
        samples: Number of samples to draw at the scale of the paper.
        cpu_samples: Number of samples to draw at the scale `cpu`.
        validation: Validation metric.
        provenance: Source of these settings.
        cpu_provenance: Further changes at the scale `cpu`.
    """

    lr: float
    noise: tuple[Transform, ...]
    cpu_noise: tuple[Transform, ...]
    samples: int
    cpu_samples: int
    validation: ValidationMetric
    provenance: str
    cpu_provenance: str = ""


_DENOISING = _Family(
    lr=5e-5,
    noise=(),
    cpu_noise=(),
    samples=100,
    cpu_samples=16,
    validation=DSM_VALIDATION,
    provenance=MULTISCALE_PROVENANCE,
)
_SLICED = _Family(
    lr=1e-5,
    noise=(Noise(0.005),),
    cpu_noise=(Noise(0.1),),
    samples=0,  # far from the data the learned score is arbitrary
    cpu_samples=0,
    validation=ValidationMetric("ssm", _SSMVR),
    provenance=_SLICED_PROVENANCE,
    cpu_provenance=" The noise is 0.1 instead of 0.005. The curvature of the density with noise "
    "0.005 is about 1/0.005², which cannot be learned in 800 iterations.",
)

_STARRED = f"{STEP_SIZE_PROVENANCE} The points are evaluated one by one instead of in one batch."

_ROWS: tuple[tuple[str, Objective, _Family, str], ...] = (
    ("DSM", MULTISCALE_DSM, _DENOISING, ""),
    (
        "FD-DSM*",
        MultiscaleDSM(SlicedDSM(0.1, _ONE_BY_ONE, _SPHERE), _LEVELS),
        _DENOISING,
        _STARRED,
    ),
    ("FD-DSM", MULTISCALE_FD_DSM, _DENOISING, STEP_SIZE_PROVENANCE),
    ("SSM", SSM(Autodiff(), Gaussian()), _SLICED, ""),
    ("SSMVR", _SSMVR, _SLICED, ""),
    ("FD-SSM*", SSM(_ONE_BY_ONE, _SPHERE), _SLICED, _STARRED),
    ("FD-SSM", SSM(_PARALLEL, _SPHERE), _SLICED, STEP_SIZE_PROVENANCE),
    (
        "Taylor-DSM",
        MultiscaleDSM(SlicedDSM(0.1, Taylor(), _SPHERE), _LEVELS),
        _DENOISING,
        "Not in the paper: FD-DSM with exact derivatives along the same directions.",
    ),
    (
        "Taylor-SSM",
        SSM(Taylor(), _SPHERE, directions=4),
        _SLICED,
        "Not in the paper: exact derivatives along four directions of length 0.05.",
    ),
    (
        "Taylor-SSM 1",
        SSM(Taylor(), _SPHERE),
        _SLICED,
        "Not in the paper: exact derivatives along one direction of length 0.05.",
    ),
)
"""Name, objective and family of each row, and provenance that only this row has."""


def _provenance(family: _Family, note: str) -> str:
    sentences = (
        "Table 2.",
        NETWORK_PROVENANCE,
        "The batch size is 64, as in Table 2 and its script. App. C.2 gives 128 as the default.",
        family.provenance,
        note,
    )
    return " ".join(filter(None, sentences))


def _paper(name: str, objective: Objective, family: _Family, note: str) -> EBM:
    return EBM(
        name,
        objective,
        MNIST(1 / 60, transform=Chain((ToFloat(), Pad(32), *family.noise))),
        ResNet(128),
        Adam(family.lr, (0.9, 0.95), clip=0.1, schedule=CosineSchedule()),
        plan=TrainingPlan(300_000, 64, 50, 1000, 5000, num_samples=family.samples),
        ood_sources=(OtherDataset("fashion", FashionMNIST()),),
        sm_eval_rows=1500,
        validation_rows=64,
        validation_metric=family.validation,
        provenance=_provenance(family, note)
        + " 1,000 training images are held out for the curves of Figure 4. The authors computed "
        "those curves from training batches.",
    )


def _cpu(name: str, objective: Objective, family: _Family, note: str) -> EBM:
    return replace(
        _paper(name, objective, family, note),
        data=MNIST(1 / 60, transform=Chain((Resize(16), ToFloat(), *family.cpu_noise))),
        network=ByShape(),
        optimizer=Adam(2e-3, (0.9, 0.95), clip=1.0, schedule=CosineSchedule()),
        plan=TrainingPlan(800, 32, 10, 50, 200, num_samples=family.cpu_samples),
        tempering=TemperedSampling(Temperatures(50, 600, 150, 30.0), step=0.05),
        ood_rows=1000,
        reference_rows=1000,
        sm_eval_rows=50,
        validation_rows=100,
        provenance=_provenance(family, note)
        + " Scale cpu: images of 16 × 16 and width 8. Initial weights of the convolutions are 1.8 "
        "times larger, which avoids the plateau at the start of training. The learning rate is "
        "2e-3, for 800 iterations with a batch size of 32, and gradients are clipped at 1."
        + family.cpu_provenance,
    )


PAPER = tuple(_paper(*row) for row in _ROWS)
"""Table 2 as published, one row for each objective. A star marks evaluation one by one.

Losses are per dimension. The authors' losses, except for FD-SSM, are 1,024 times larger, which
matters where gradients are clipped at 0.1. Typicality uses 10,000 training images. No step is
skipped.
"""

CPU = tuple(_cpu(*row) for row in _ROWS)
"""The same with smaller images, a sixteenth of the width and far fewer iterations."""
