"""Random changes of bytes, which know nothing about the format of a file."""

import random
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, bytes], bytes]
"""A random change of the content of a file."""

MAX_BYTES = 2**20
"""Larger results are cut off."""

INTEGERS = (
    0, 1, -1, 2, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1,
)  # fmt: skip
TEXTS = (
    "", "\x1b[31mred\x1b[0m", "[/bold]", "[red]x", "\x00", "\r\n", "../../outside", "/dev/zero",
    "nan", "inf", "-", "NaT", "9" * 400, "1e999", "𝔘nicode ✓", "\u202ereversed", "a" * 5000,
    "import os", "__import__('os').system('x')", "%s%n", "{0}", "file:///etc/passwd", "\ud800",
)  # fmt: skip


def flip_bits(rng: random.Random, content: bytes) -> bytes:
    """Flip a few bits."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def truncate(rng: random.Random, content: bytes) -> bytes:
    """Keep the beginning, or remove it."""
    cut = rng.randrange(len(content) + 1)
    return content[:cut] if rng.random() < 0.8 else content[cut:]


def insert(rng: random.Random, content: bytes) -> bytes:
    """Insert random bytes or text."""
    at = rng.randrange(len(content) + 1)
    new = rng.choice((
        rng.randbytes(rng.choice((1, 2, 4, 8, 100))),
        rng.choice(TEXTS).encode("utf-8", "surrogatepass"),
        bytes(rng.choice((1, 4, 64, 4096))),
    ))
    return content[:at] + new + content[at:]


def delete(rng: random.Random, content: bytes) -> bytes:
    """Delete a range."""
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    end = min(end, start + rng.choice((1, 2, 8, 64, 10**6)))
    return content[:start] + content[end:]


def duplicate(rng: random.Random, content: bytes) -> bytes:
    """Repeat a range."""
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:end] + content[start:end] * rng.choice((1, 1, 2, 10)) + content[end:]


def splice(rng: random.Random, content: bytes) -> bytes:
    """Replace a range by another range of the same file."""
    if len(content) < 4:
        return content
    size = rng.randrange(1, min(len(content), 200))
    source, target = (rng.randrange(len(content) - size + 1) for _ in range(2))
    return content[:target] + content[source : source + size] + content[target + size :]


def overwrite_integer(rng: random.Random, content: bytes) -> bytes:
    """Overwrite a few bytes by a number such as zero or the largest one."""
    size = rng.choice((1, 2, 4, 8))
    if len(content) < size:
        return content
    # The headers of most formats are at the beginning or at the end.
    near = rng.choice((64, 256, len(content)))
    at = rng.randrange(max(min(len(content) - size, near), 1))
    at = at if rng.random() < 0.7 else len(content) - size - at
    order = rng.choice(("little", "big"))
    number = (rng.choice(INTEGERS) % 256**size).to_bytes(size, order)
    return content[:at] + number + content[at + size :]


BYTES: tuple[Mutation, ...] = (
    flip_bits, flip_bits, truncate, insert, delete, duplicate, splice, overwrite_integer,
)  # fmt: skip
"""Changes that know nothing about the format."""


def mutate(rng: random.Random, content: bytes, structure: Sequence[Mutation]) -> bytes:
    """Return content with a few random changes, most of them of its structure."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        choice = structure if structure and rng.random() < 0.65 else BYTES
        content = rng.choice(choice)(rng, content)[:MAX_BYTES]
    return content
