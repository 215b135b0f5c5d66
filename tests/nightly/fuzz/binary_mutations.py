"""Random changes of the structure of binary files: arrays, images, pickles and checkpoints."""

import json
import math
import random
import re
import struct
import zlib

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from fdsm.training.checkpoint import _digest

from .mutations import BYTES, INTEGERS, flip_bits, overwrite_integer, truncate
from .text_mutations import change_json


def change_npy(rng: random.Random, content: bytes) -> bytes:
    """Change the header of a `.npy` file, with the right length."""
    if content[:6] != b"\x93NUMPY" or len(content) < 12:
        return rng.choice(BYTES)(rng, content)
    (size,) = struct.unpack_from("<H", content, 8)
    header, body = content[10 : 10 + size].decode("latin-1"), content[10 + size :]
    shapes = ("()", "(0,)", "(3,)", "(-1, 3)", "(1000000000000,)", "(2, 0, 9)", "(65536, 65536)",
              "(4, 5, 6)", "('a',)", "(1.5,)", "(" * 80 + ")" * 80, "(True, 2)")  # fmt: skip
    types = ("'|O'", "'<c16'", "'|S5'", "'<U3'", "'>i2'", "'<f2'", "'<M8[s]'", "'|V8'", "'|b1'",
             "[('a', '<i4'), ('b', 'O')]", "'x'", "None", "'<f16'", "['<f8']", "'|S1000000000'")  # fmt: skip
    header = rng.choice((
        lambda: re.sub(r"\([^)]*\)", rng.choice(shapes), header, count=1),
        lambda: re.sub(r"'[<>|=]\w+'", rng.choice(types), header, count=1),
        lambda: header.replace("False", rng.choice(("True", "None", "'x'", "0"))),
        lambda: header.replace("descr", rng.choice(("shape", "x" * 3000, "fortran_order"))),
        lambda: rng.choice(BYTES)(rng, header.encode("latin-1")).decode("latin-1"),
    ))()
    raw = header.encode("latin-1", "replace")[:60_000]
    version = rng.choice((
        b"\x01\x00",
        b"\x01\x00",
        b"\x01\x00",
        b"\x02\x00",
        b"\x03\x00",
        b"\x09\x00",
    ))
    length = struct.pack("<H" if version[0] == 1 else "<I", len(raw))
    return b"\x93NUMPY" + version + length + raw + body


def change_png(rng: random.Random, content: bytes) -> bytes:
    """Change the chunks of a PNG file. Checksums of chunks stay right."""
    chunks, at = [], 8
    while at + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    if not chunks or content[:4] != b"\x89PNG":
        return rng.choice(BYTES)(rng, content)
    place = rng.randrange(len(chunks))
    name, data = chunks[place]
    new = (b"iCCP", b"tEXt", b"zTXt", b"iTXt", b"tRNS", b"PLTE", b"acTL", b"fcTL", b"eXIf", b"gAMA",
           b"pHYs", b"sRGB", b"cHRM", b"IDAT", b"IEND", b"IHDR", b"xxxx")  # fmt: skip
    match rng.randrange(6):
        case 0:
            extra = rng.choice((
                b"",
                b"\x00",
                rng.randbytes(20),
                b"icc\x00\x00" + zlib.compress(bytes(9)),
                b"\x00" * 40,
            ))
            chunks.insert(rng.randrange(len(chunks) + 1), (rng.choice(new), extra))
        case 1:
            del chunks[place]
        case 2:
            chunks.insert(rng.randrange(len(chunks) + 1), chunks[place])
        case 3:
            chunks[place] = (rng.choice(new), data)
        case 4:
            chunks[place] = (name, rng.choice(BYTES)(rng, data))
        case _:
            sizes = struct.pack(">II", *(rng.choice(INTEGERS) % 2**32 for _ in range(2)))
            depth = bytes([
                rng.choice((1, 2, 4, 8, 16, 3)),
                rng.choice((0, 2, 3, 4, 6, 1)),
                0,
                0,
                rng.choice((0, 1, 9)),
            ])
            whole = sizes + depth if rng.random() < 0.5 else data[:8] + depth
            chunks[0] = (b"IHDR", whole)
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def change_idx(rng: random.Random, content: bytes) -> bytes:
    """Change the magic number or a size in the header of an idx file."""
    at = rng.choice((0, 2, 3, 4, 8, 12))
    size = 1 if at < 4 else 4
    return (
        content[:at]
        + (rng.choice(INTEGERS) % 256**size).to_bytes(size, "big")
        + content[at + size :]
    )


def change_safetensors(rng: random.Random, content: bytes) -> bytes:
    """Change the header of a safetensors file, with the right length."""
    if len(content) < 8:
        return content
    (size,) = struct.unpack_from("<Q", content)
    if size > len(content):
        return rng.choice(BYTES)(rng, content)
    header = change_json(rng, content[8 : 8 + size])
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def change_mat(rng: random.Random, content: bytes) -> bytes:
    """Change the content of a compressed element of a MATLAB file."""
    if len(content) < 140:
        return content
    kind, size = struct.unpack_from("<II", content, 128)
    if kind != 15:
        return overwrite_integer(rng, content)
    try:
        data = zlib.decompress(content[136 : 136 + size])
    except zlib.error:
        return rng.choice(BYTES)(rng, content)
    head = rng.choice((overwrite_integer, flip_bits, truncate))(rng, data[:80]) + data[80:]
    raw = zlib.compress(head, 1)
    return content[:128] + struct.pack("<II", 15, len(raw)) + raw + content[136 + size :]


OPCODES = (
    b"cos\nsystem\n(S'touch executed'\ntR", b"cbuiltins\neval\n(S'1'\ntR", b"(K\x01tR", b"}", b"]",
    b"\x94", b"h\x00", b"j\xff\xff\xff\x7f", b"0", b"2", b"R", b"b", b"\x81", b"N", b"q\xff",
    b"cnumpy\nndarray\n", b"ccopyreg\n_reconstructor\n", b"I" + b"9" * 5000 + b"\n", b"(((((",
    b"T\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 8, b"\x95" + b"\xff" * 8, b"P0\n", b"Q",
)  # fmt: skip


def change_pickle(rng: random.Random, content: bytes) -> bytes:
    """Insert opcodes of a pickle, also those that would execute code."""
    at = rng.randrange(min(len(content), 400) + 1)
    at = at if rng.random() < 0.7 else max(len(content) - at, 0)
    return content[:at] + rng.choice(OPCODES) + content[at:]


def change_state(rng: random.Random, content: bytes) -> bytes:
    """Change the state or a tensor of a checkpoint, with the digest of the new content."""
    try:
        tensors = load(content)
        (size,) = struct.unpack_from("<Q", content)
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        state = metadata["state"]
    except (SafetensorError, ValueError, KeyError, struct.error, TypeError):
        return rng.choice(BYTES)(rng, content)
    if rng.random() < 0.6 or not tensors:
        state = change_json(rng, state.encode()).decode("utf-8", "replace")
    else:
        name = rng.choice(sorted(tensors))
        old = tensors[name]
        tensors[name] = (
            rng.choice((
                lambda: old.flatten(),
                lambda: old[:0],
                lambda: old[None],
                lambda: torch.full_like(old, math.nan) if old.is_floating_point() else old + 1000,
                lambda: old.to(rng.choice((torch.int64, torch.bool, torch.float64, torch.uint8))),
                lambda: torch.cat([old.flatten(), old.flatten()]),
                lambda: torch.zeros(()),
            ))().clone()
            if old.ndim
            else old[None].clone()
        )
    changed = {
        "format": metadata.get("format", ""),
        "state": state,
        "digest": _digest(state, tensors),
    }
    return save(tensors, changed)
