"""Built-in data sets by name."""

from difflib import get_close_matches

from ..dataset import Source
from ..errors import DataError
from .celeba import CelebA
from .cifar10 import CIFAR10
from .densities import GaussianMixtureDensity, GaussianRing
from .digits import Digits
from .mnist import MNIST, FashionMNIST
from .svhn import SVHN
from .synthetic import SyntheticData
from .uci import Parkinsons, RedWine, WhiteWine

_SOURCES: dict[str, Source] = {
    "mnist": MNIST(),
    "fashion-mnist": FashionMNIST(),
    "cifar10": CIFAR10(),
    "svhn": SVHN(),
    "celeba": CelebA(),
    "digits": Digits(),
    "parkinsons": Parkinsons(),
    "redwine": RedWine(),
    "whitewine": WhiteWine(),
    "gaussian-ring": SyntheticData(GaussianRing(), n=50_000),
    "gaussian-mixture": SyntheticData(
        GaussianMixtureDensity(
            means=((-1.5, 0.0), (1.0, 1.2), (1.2, -1.0)),
            scales=(0.6, 0.35, 0.45),
            weights=(0.5, 0.2, 0.3),
        ),
        n=50_000,
    ),
}

BUILTIN_NAMES = tuple(_SOURCES)
"""Names of the built-in data sets."""


def builtin_source(name: str) -> Source:
    """Return a built-in data set with its default settings.

    Args:
        name: One of `BUILTIN_NAMES`.

    Returns:
        The source. `dataclasses.replace` changes its settings.

    Raises:
        DataError: If there is no such data set.

    Example:
        >>> builtin_source("digits")
        Digits(validation=0.1, test=0.1, seed=0, transform=Dequantize(levels=17))
    """
    if name in _SOURCES:
        return _SOURCES[name]
    close = get_close_matches(name.lower().replace("_", "-"), BUILTIN_NAMES, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise DataError(
        f"There is no built-in data set {name!r}.{hint} Available: {', '.join(BUILTIN_NAMES)}."
    )
