"""Damage to the content of files: flipped bits, and bytes that are cut off or zero."""

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[bytes], bytes]


def flip(place: float, bit: int = 0) -> Damage:
    """Return damage: a bit of the byte at a relative place is flipped."""

    def damage(content: bytes) -> bytes:
        damaged = bytearray(content)
        if damaged:
            damaged[int(place * len(damaged))] ^= 1 << bit
        return bytes(damaged)

    return damage


def cut(share: float) -> Damage:
    """Return damage: only a share of the bytes is left."""
    return lambda content: content[: int(share * len(content))]


def tear(place: float) -> Damage:
    """Return damage: from a relative place on there are zeros, as after a lost flush."""
    return lambda content: content[: (n := int(place * len(content)))] + bytes(len(content) - n)


DAMAGES = {
    "flipped at the start": flip(0.0),
    "flipped early": flip(0.2, 3),
    "flipped in the middle": flip(0.5),
    "flipped late": flip(0.9, 6),
    "flipped at the end": flip(0.999, 1),
    "empty": cut(0),
    "cut in the middle": cut(0.5),
    "cut at the end": cut(0.999),
    "zeros at the end": tear(0.7),
    "zeros": tear(0),
}


def damage_file(path: Path, damage: Damage) -> None:
    """Damage a file."""
    path.write_bytes(damage(path.read_bytes()))
