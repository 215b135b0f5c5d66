"""Out-of-distribution detection by typicality of deep energy-based models (Table 4 of the paper).

Each model is trained on one data set. Pairs of test images of every data set are then scored by
the distance of their mean log-density from that of the training data. For test images of the
model's own data set the AUC should be 0.5.
"""

from dataclasses import dataclass, replace

from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Objective

from ..data import (
    CIFAR10,
    MNIST,
    SVHN,
    Chain,
    FashionMNIST,
    Flip,
    ImageFolder,
    Pad,
    Resize,
    Source,
    ToFloat,
    Transform,
)
from ..recipes import EBM, HeldOut, OODSource, OtherDataset, ResNet, TrainingPlan
from .table2 import (
    DSM_VALIDATION,
    MULTISCALE_DSM,
    MULTISCALE_FD_DSM,
    MULTISCALE_PROVENANCE,
    NETWORK_PROVENANCE,
    STEP_SIZE_PROVENANCE,
)

PAIRS = 1000
"""Number of pairs of test images of each data set."""


@dataclass(frozen=True)
class ImageSet:
    """A data set and the network that is trained on it.

    Attributes:
        name: Name of the data set in rows.
        key: Name of the data set in metrics.
        source: The data.
        network: The network.
        provenance: Source of these settings.
    """

    name: str
    key: str
    source: Source
    network: ResNet
    provenance: str


_METHODS: tuple[tuple[str, Objective, str], ...] = (
    ("DSM", MULTISCALE_DSM, ""),
    ("FD-DSM", MULTISCALE_FD_DSM, STEP_SIZE_PROVENANCE),
)


def _rows(image_sets: tuple[ImageSet, ...]) -> tuple[EBM, ...]:
    """Return DSM and FD-DSM on each of several data sets, with the published settings."""
    return tuple(
        EBM(
            f"{images.name} {name}",
            objective,
            images.source,
            images.network,
            Adam(5e-5, (0.9, 0.95), clip=0.1, schedule=CosineSchedule()),
            plan=TrainingPlan(300_000, 128, 50, 0, 5000, num_samples=0),
            ood_sources=_ood_sources(images, image_sets),
            ood_rows=2 * PAIRS,
            reference_rows=50_000,
            sm_eval_rows=0,
            validation_metric=DSM_VALIDATION,
            provenance=_provenance(note, images.provenance),
        )
        for images in image_sets
        for name, objective, note in _METHODS
    )


def _ood_sources(images: ImageSet, image_sets: tuple[ImageSet, ...]) -> tuple[OODSource, ...]:
    """Return test images of every data set, for the model of one of them."""
    return tuple(
        HeldOut(other.key, 2 * PAIRS) if other is images else OtherDataset(other.key, other.source)
        for other in image_sets
    )


def _provenance(method: str, images: str) -> str:
    sentences = (
        "Table 4 and App. C.3, which sets M = 2 and N = 50,000.",
        NETWORK_PROVENANCE,
        MULTISCALE_PROVENANCE,
        method,
        "The typical log-density is the mean over 50,000 training images, as in App. C.3. The "
        "code uses 1,000. There are 1,000 pairs of each test set, all resized to the model's "
        "resolution.",
        images,
    )
    return " ".join(filter(None, sentences))


def _to_float(*steps: Transform) -> Chain:
    """Return some transforms followed by a conversion to [0, 1]."""
    return Chain((*steps, ToFloat()))


_WIDE = ResNet(128)

_COLOR = (
    ImageSet(
        "SVHN",
        "svhn",
        SVHN(validation=0.0, transform=_to_float()),
        _WIDE,
        "Images are not flipped.",
    ),
    ImageSet(
        "CIFAR-10",
        "cifar10",
        CIFAR10(validation=0.0, transform=_to_float(Flip())),
        _WIDE,
        "Training images are flipped, as in the code.",
    ),
    ImageSet(
        "ImageNet",
        "imagenet",
        ImageFolder(
            "imagenet",
            size=128,
            crop=128,
            channels=3,
            limit=100_000,
            validation=0.0,
            transform=_to_float(Flip()),
        ),
        ResNet(64),
        "Images are the central 128 × 128 pixels of the images in the folder imagenet. The width "
        "is 64, as in the paper. The script leaves it at 128. The code uses training images for "
        "the test as well, and flips them. Here a tenth of 100,000 images is used only for the "
        "test.",
    ),
)

_NOT_PUBLISHED = "Not in the paper, which uses only color images."

_GRAY = (
    ImageSet("MNIST", "mnist", MNIST(0.0, transform=_to_float(Pad(32))), _WIDE, _NOT_PUBLISHED),
    ImageSet(
        "Fashion-MNIST",
        "fashion",
        FashionMNIST(0.0, transform=_to_float(Pad(32))),
        _WIDE,
        _NOT_PUBLISHED,
    ),
)

PAPER = (*_rows(_COLOR), *_rows(_GRAY))
"""Table 4 as published, and the same for two data sets of gray images."""

_NARROW = ResNet(8, gain=1.8)

_CPU_COLOR = (
    ImageSet(
        "SVHN",
        "svhn",
        SVHN(
            "test_32x32_part10000.mat",
            validation=0.05,
            test=0.4,
            transform=_to_float(Resize(16)),
        ),
        _NARROW,
        "SVHN: the first 10,000 test images, split at random.",
    ),
    ImageSet(
        "CIFAR-10",
        "cifar10",
        CIFAR10((1,), validation=0.05, transform=_to_float(Flip(), Resize(16))),
        _NARROW,
        "CIFAR-10: the first batch.",
    ),
    ImageSet(
        "ImageNet",
        "imagenet",
        ImageFolder(
            "tiny-imagenet/tiny-imagenet-200-val.zip",
            size=32,
            channels=3,
            validation=0.05,
            test=0.4,
            transform=_to_float(Flip(), Resize(16)),
        ),
        _NARROW,
        "ImageNet is replaced by the 10,000 validation images of Tiny ImageNet, split at random.",
    ),
)

_CPU_GRAY = (
    ImageSet(
        "MNIST", "mnist", MNIST(1 / 60, transform=_to_float(Resize(16))), _NARROW, _NOT_PUBLISHED
    ),
    ImageSet(
        "Fashion-MNIST",
        "fashion",
        FashionMNIST(1 / 60, transform=_to_float(Resize(16))),
        _NARROW,
        _NOT_PUBLISHED,
    ),
)

_CPU = (
    " Scale cpu: images of 16 × 16 and width 8. Initial weights of the convolutions are 1.8 times "
    "larger. The learning rate is 2e-3, for 800 iterations with a batch size of 32, and gradients "
    "are clipped at 1. The typical log-density is the mean over 5,000 training images."
)

CPU = tuple(
    replace(
        recipe,
        optimizer=Adam(2e-3, (0.9, 0.95), clip=1.0, schedule=CosineSchedule()),
        plan=TrainingPlan(800, 32, 10, 100, 200, num_samples=0),
        reference_rows=5000,
        validation_rows=100,
        provenance=recipe.provenance + _CPU,
    )
    for recipe in (*_rows(_CPU_COLOR), *_rows(_CPU_GRAY))
)
"""The same with smaller images, parts of the data and far fewer iterations."""
