"""MNIST and Fashion-MNIST: 60,000 + 10,000 greyscale images of 28x28."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ...serialize import Json
from ..dataset import Dataset, Source, build_dataset
from ..download import Published
from ..errors import DataError
from ..formats.idx import read_idx
from ..split import held_out
from ..transforms import Dequantize, Transform

TRAIN, TEST = "train", "t10k"


@dataclass(frozen=True)
class MNIST:
    """Handwritten digits: `(N, 1, 28, 28)` bytes, with labels 0 to 9.

    Reference:
        LeCun et al. (1998), Gradient-based learning applied to document recognition.

    Attributes:
        validation: The share of the 60,000 training images to hold out for validation.
        seed: Decides which.
        transform: From bytes to what the model sees.
    """

    validation: float = 0.1
    seed: int = 2020
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return _load(self, _MNIST, validation=self.validation, seed=self.seed)


@dataclass(frozen=True)
class FashionMNIST:
    """Clothes, in the format of MNIST: `(N, 1, 28, 28)` bytes, with labels 0 to 9.

    Reference:
        Xiao et al. (2017), https://arxiv.org/abs/1708.07747.

    Attributes:
        validation: The share of the 60,000 training images to hold out for validation.
        seed: Decides which.
        transform: From bytes to what the model sees.
    """

    validation: float = 0.1
    seed: int = 2020
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return _load(self, _FASHION, validation=self.validation, seed=self.seed)


def _load(
    source: Source, files: Mapping[str, Published], *, validation: float, seed: int
) -> Dataset:
    images, labels, train_files = _half(files, TRAIN)
    test, test_labels, test_files = _half(files, TEST)
    kept, held = held_out(len(images), validation, seed)
    return build_dataset(
        source,
        (images[kept], images[held], test),
        labels=(labels[kept], labels[held], test_labels),
        files=[*train_files, *test_files],
    )


def _half(files: Mapping[str, Published], half: str) -> tuple[Tensor, Tensor, list[Json]]:
    images, first = files[f"{half}-images"].read(lambda p: read_idx(p, (28, 28)))
    labels, second = files[f"{half}-labels"].read(lambda p: read_idx(p, ()))
    if len(images) != len(labels):
        raise DataError(
            f"{half}: there are {len(images):,} images but {len(labels):,} labels: "
            "the two files do not belong together"
        )
    return images[:, None], labels.long(), [first, second]


def _published(
    folders: tuple[str, ...], mirrors: tuple[str, ...], checksums: Mapping[str, str]
) -> dict[str, Published]:
    files = {}
    for name, sha256 in checksums.items():
        full = f"{name}-idx{3 if 'images' in name else 1}-ubyte"
        files[name] = Published(
            names=(f"{full}.gz", full, full.replace("-idx", ".idx")),
            folders=folders,
            official=f"sha256:{sha256}",
            mirrors=tuple(f"{mirror}{full}.gz" for mirror in mirrors),
        )
    return files


_MNIST = _published(
    ("mnist", "MNIST/raw", "MNIST", "mnist/MNIST/raw"),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    {
        "train-images": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)
_FASHION = _published(
    ("fashion_mnist", "FashionMNIST/raw", "FashionMNIST", "fashion-mnist"),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    {
        "train-images": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)
