"""Values of JSON files as they are shown and compared, and numbers among them."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..serialize import Json

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Measured:
    """A number of `result.json`.

    Attributes:
        value: The number.
        error: Its standard error as the run itself estimated it, if it did.
        settings: What decides it, by path.
    """

    value: float
    error: float | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)


def measured(values: Json) -> dict[str, Measured]:
    """Return the numbers in `{"name": {"value": …, "error": …}}` or `{"name": value}`."""
    numbers: dict[str, Measured] = {}
    for name, value in values.items() if isinstance(values, dict) else ():
        whole = value if isinstance(value, dict) else {"value": value}
        error = real(whole.get("error"))
        numbers[text(name)] = Measured(
            real(whole.get("value")),
            error if math.isfinite(error) else None,
            {path: leaf for path, leaf in flat(whole.get("settings") or {}).items() if path},
        )
    return numbers


def flat(value: Json, path: str = "") -> dict[str, Json]:
    """Return the leaves of a JSON value by path; lists of scalars are leaves.

    Args:
        value: A JSON value.
        path: What its own path is.

    Returns:
        The leaves by their paths.

    Example:
        >>> flat({"optimizer": {"lr": 0.001, "betas": [0.9, 0.95]}, "ema": None})
        {'optimizer.lr': 0.001, 'optimizer.betas': [0.9, 0.95], 'ema': None}
    """
    if isinstance(value, Mapping) and value:
        items: Iterable[tuple[str, Json]] = ((text(key), item) for key, item in value.items())
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items = ((str(index), item) for index, item in enumerate(value))
    else:
        return {path: value}
    leaves: dict[str, Json] = {}
    for key, item in items:
        leaves |= flat(item, f"{path}.{key}" if path else key)
    return leaves


def text(value: Json) -> str:
    """Return a JSON value as printable text."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))


def differing(settings: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the paths at which settings differ, or that some of them lack.

    Args:
        settings: Settings by path.

    Returns:
        The paths, in the order in which they first appear.

    Example:
        >>> differing([{"lr": 0.1, "steps": 9}, {"lr": 0.2, "steps": 9, "ema": None}])
        ['lr', 'ema']
    """
    paths = dict.fromkeys(path for one in settings for path in one)
    written = [{path: json.dumps(value) for path, value in one.items()} for one in settings]
    return [path for path in paths if len({one.get(path) for one in written}) > 1]


def real(value: Json) -> float:
    """Return a JSON value as a number, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
