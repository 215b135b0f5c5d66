"""Random changes of JSON documents, logs and text tables."""

import copy
import json
import math
import random
from typing import Any

from .mutations import BYTES, TEXTS

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1e308, -0.0, 0.5, math.inf, -math.inf,
    math.nan, [], {}, [[]], {"": {}}, [None], {"class": "fdsm.objectives.SSM"},
    {"class": "os.system"}, {"import": "os.system"}, {"import": "fdsm.cli.main.main"},
    {"class": "fdsm.runs.Run"}, {"value": None}, *TEXTS,
)  # fmt: skip
CELLS = (
    *TEXTS, '"', '""', "1,5", "1.234,5", "$ 5", "5 kg", "2024-02-30", "0001-01-01", "99999-12-31",
    "12:61", "true", "TRUE", "0x10", "1_000", "١٢٣", "½", "−1", "+-1", "1e400", "-1e-400", "#REF!",
    "1" * 5000, "1" * 4000 + "x", "1," * 50, ";" * 20, "\t", "'", "\ufeff", "x" * 140_000,
)  # fmt: skip


def change_json(rng: random.Random, content: bytes) -> bytes:
    """Change a value, a key or the nesting of a JSON document."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return rng.choice(BYTES)(rng, content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        value = _change_node(rng, value, rng.choice((1, 3, 8)))
    text = json.dumps(value, ensure_ascii=rng.random() < 0.9)
    if rng.random() < 0.05:
        depth = rng.choice((50, 1000, 100_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1)
    return text.encode("utf-8", "surrogatepass")


def _change_node(rng: random.Random, value: Any, depth: int) -> Any:  # ruff: ignore[any-type]
    """Return a JSON value in which one value at random is changed."""
    places = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if value and isinstance(value, list)
        else ()
    )
    if not places or depth == 0 or rng.random() < 0.1:
        return _other_value(rng, value)
    place = rng.choice(list(places))
    kind = rng.random()
    if kind < 0.1:
        del value[place]
    elif kind < 0.2 and isinstance(value, dict):
        value[rng.choice((f"{place}x", *TEXTS[:6], "class", "import"))] = value.pop(place)
    elif kind < 0.25 and isinstance(value, list):
        value.extend(copy.deepcopy(value * rng.choice((1, 3, 200))))
        del value[5000:]
    else:
        value[place] = _change_node(rng, value[place], depth - 1)
    return value


def _other_value(rng: random.Random, value: Any) -> Any:  # ruff: ignore[any-type]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice((-value, value + 1, value * 1000, value / 7, str(value)))
    return copy.deepcopy(rng.choice(VALUES))


def change_lines(rng: random.Random, content: bytes) -> bytes:
    """Change one line of a JSON lines file."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    new = (
        b"1",
        b"{}",
        b"[]",
        b"null",
        b"NaN",
        b'"x"',
        b'{"iteration": {}}',
        b'{"iteration": 1e400}',
    )
    lines[at] = rng.choice((change_json(rng, lines[at]), rng.choice(new)))
    return b"\n".join(lines)


def change_cells(rng: random.Random, content: bytes) -> bytes:
    """Change cells, delimiters, quotes, names or line endings of a text table."""
    kind = rng.random()
    if kind < 0.1:
        return content.replace(*rng.choice((
            (b",", b";"), (b"\n", b"\r\n"), (b"\n", b"\r"), (b",", b"\t"), (b",", b" "), (b".", b","),
        )))  # fmt: skip
    if kind < 0.16:
        text = content.decode("utf-8", "replace")
        return text.encode(
            rng.choice(("utf-16", "utf-16-le", "latin-1", "cp500", "utf-8-sig")), "replace"
        )
    delimiter = rng.choice((b",", b"\n", b";", b"\t"))
    parts = content.split(delimiter)
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(parts))
        cell = rng.choice(CELLS).encode("utf-8", "surrogatepass")
        parts[at] = rng.choice((cell, cell, parts[at] + cell, b'"' + cell + b'"'))
    if rng.random() < 0.1:
        parts *= rng.choice((2, 50))
    return delimiter.join(parts)
