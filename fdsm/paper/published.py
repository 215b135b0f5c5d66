"""The numbers that the paper gives, each with its place in it.

Rows are called as in the recipes, and metrics as in `result.json`. Rows of ours that the paper
does not have, such as those of Table 1 with a solve by differences too, have no published numbers.
Nothing here needs torch.

Reference:
    Pang et al. (2020), https://arxiv.org/abs/2007.03317.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NLL, SM, FID = "nll", "exact_sm_loss", "fid"
PACE, BYTES = "milliseconds_per_iteration", "bytes"


@dataclass(frozen=True)
class Published:
    """A number of the paper.

    Attributes:
        value: The number.
        error: What it has after its ±, if anything.
        place: Where it stands.
    """

    value: float
    error: float | None
    place: str


Row = dict[str, Published]
Given = float | tuple[float, float]


def published(target: str, row: str) -> Row:
    """Return what the paper says of a row.

    Args:
        target: A table or figure, such as `"table1"`.
        row: The name of the row, as in the recipes.

    Returns:
        The numbers by the names of their metrics; none for rows that the paper does not have.

    Example:
        >>> published("table3", "MLE")["nll"]
        Published(value=791.0, error=14.0, place='Table 3')
        >>> published("table3", "Taylor-SSM")
        {}
    """
    return dict(PUBLISHED.get(target, {}).get(row, {}))


def claim(subject: str, what: str) -> Published:
    """Return a number that the text of the paper claims.

    Args:
        subject: What it is said of, such as `"FD-SSM"`.
        what: What is claimed, such as `"speed_up"`.

    Returns:
        The number.

    Raises:
        LookupError: If nothing of the kind is claimed.

    Example:
        >>> claim("FD-SSM", "speed_up")
        Published(value=2.9, error=None, place='Sec. 6.1, on MNIST')
    """
    if what not in CLAIMS.get(subject, {}):
        there = ", ".join(f"{name} {one}" for name, row in CLAIMS.items() for one in row)
        raise LookupError(f"the paper claims no {what!r} of {subject!r}, but {there}")
    return CLAIMS[subject][what]


def _table(
    place: str, metrics: tuple[str, ...], rows: Mapping[str, tuple[Given, ...]]
) -> dict[str, Row]:
    """Return the rows of a table; a pair is a value and its error."""
    return {
        name: {
            metric: Published(float(given[0]), float(given[1]), place)
            if isinstance(given, tuple)
            else Published(float(given), None, place)
            for metric, given in zip(metrics, values, strict=True)
        }
        for name, values in rows.items()
    }


_KERNELS = _table(
    "Table 1",
    (NLL, SM, PACE),
    {
        "Parkinsons SSM": (14.52, -123.54, 110),
        "Parkinsons SSMVR": (13.26, -193.97, 111),
        "Parkinsons FD-SSM": (13.69, -138.72, 82.5),
        "RedWine SSM": (13.34, -33.28, 113),
        "RedWine SSMVR": (13.13, -31.19, 106),
        "RedWine FD-SSM": (13.06, -30.34, 82),
        "WhiteWine SSM": (14.13, -38.43, 105),
        "WhiteWine SSMVR": (13.63, -39.42, 111),
        "WhiteWine FD-SSM": (14.10, -32.84, 81.0),
    },
)

_STEPS = _table(
    "Sec. 6.1, on the choice of ε",
    (NLL,),
    {"0.1": (14.17,), "0.05": (13.51,), "0.02": (14.03,), "0.01": (14.00,)},
)

_SMALLER = {f"Parkinsons FD-SSM {step}": row for step, row in _STEPS.items() if step != "0.1"}

_DEEP = _table(
    "Table 2",
    (SM, PACE, BYTES),
    {
        "DSM": (-9.47e4, 282, 3.0e9),
        "FD-DSM*": (-9.24e4, 191, 3.2e9),
        "FD-DSM": (-9.27e4, 162, 2.7e9),
        "SSM": (-2.97e7, 673, 5.1e9),
        "SSMVR": (-3.09e7, 670, 5.0e9),
        "FD-SSM*": (-3.36e7, 276, 3.7e9),
        "FD-SSM": (-3.33e7, 230, 3.4e9),
    },
)

_FLOWS = _table(
    "Table 3",
    (SM, NLL, PACE),
    {
        "Approx BP": ((-2530, 617), (1853, 819), 55.3),
        "CP": ((-2049, 630), (1626, 269), 73.6),
        "DSM 0.1": ((-2820, 825), (3398, 1343), 35.8),
        "DSM 1.74": ((-180, 50), (3764, 1583), 37.2),
        "SSM": ((-2182, 269), (2579, 945), 59.6),
        "SSMVR": ((-4943, 3191), (6234, 3782), 61.7),
        "FD-SSM": ((-2425, 100), (1647, 306), 26.4),
        "MLE": ((-1236, 525), (791, 14), 24.3),
    },
)

_OUTSIDE = _table(
    "Table 4",
    (PACE, "ood_auc_svhn", "ood_auc_cifar10", "ood_auc_imagenet"),
    {
        "SVHN DSM": (673, 0.49, 1.00, 0.99),
        "SVHN FD-DSM": (305, 0.50, 1.00, 1.00),
        "CIFAR-10 DSM": (635, 0.91, 0.49, 0.79),
        "CIFAR-10 FD-DSM": (311, 0.92, 0.51, 0.81),
        "ImageNet DSM": (1125, 0.95, 0.87, 0.49),
        "ImageNet FD-DSM": (713, 0.95, 0.89, 0.49),
    },
)

_SCORES = _table(
    "Table 5",
    (FID, PACE, BYTES),
    {"SSMVR": (41.2, 865, 6.4e9), "FD-SSMVR": (39.5, 575, 5.5e9)},
)

_DIGITS = _table(
    "Table 6",
    (NLL, PACE),
    {
        "VAE SSMVR": (89.58, 5.04),
        "VAE FD-SSMVR": (88.96, 3.98),
        "WAE SSMVR": (90.45, 0.55),
        "WAE FD-SSMVR": (90.66, 0.39),
    },
)

_FACES = _table(
    "Table 6",
    (FID, PACE),
    {
        "CelebA VAE SSMVR": (62.76, 14.9),
        "CelebA VAE FD-SSMVR": (64.85, 9.38),
        "CelebA WAE SSMVR": (54.28, 1.30),
        "CelebA WAE FD-SSMVR": (54.67, 0.81),
    },
)

PUBLISHED: Mapping[str, Mapping[str, Row]] = {
    "table1": _KERNELS | _SMALLER,
    "sensitivity": _STEPS,
    "table2": _DEEP,
    "table3": _FLOWS,
    "table4": _OUTSIDE,
    "table5": _SCORES,
    "table6": _DIGITS | _FACES,
}
"""The numbers by target, row and metric, rows in the order of the paper.

Memory is in bytes, a G of the paper taken as 10⁹. The times of WAE in Table 6 are likely ten times
too small: the authors' code adds up every tenth step and divides by all. The rows of `sensitivity`
are steps; that of 0.1 is a second number, beside that of Table 1, for `Parkinsons FD-SSM`.
"""

CLAIMS: Mapping[str, Row] = {
    "FD-SSM": {
        "least_speed_up": Published(2.5, None, "Sec. 1"),
        "speed_up": Published(2.9, None, "Sec. 6.1, on MNIST"),
    },
    "FD-DSM": {
        "least_speed_up": Published(1.5, None, "Sec. 1"),
        "speed_up": Published(1.7, None, "Sec. 6.1, on MNIST"),
    },
    "SSM": {
        "most_time": Published(25.0, None, "Sec. 2.2, over that of the log-likelihood"),
        "most_memory": Published(4.0, None, "Sec. 2.2, over that of the log-likelihood"),
    },
    "DSM": {
        "most_time": Published(5.0, None, "Sec. 2.2, over that of the log-likelihood"),
        "most_memory": Published(2.0, None, "Sec. 2.2, over that of the log-likelihood"),
    },
    "FD": {"relative_error": Published(0.01, None, "Sec. 3.3, on Figure 2")},
}
"""The numbers that only the text has, by what they are said of."""
