"""Random changes of bytes, and of the structure of each file format."""

import copy
import gzip
import io
import json
import math
import random
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

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
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1e308, -0.0, 0.5, math.inf, -math.inf,
    math.nan, [], {}, [[]], {"": {}}, [None], {"class": "fdsm.objectives.SSM"},
    {"class": "os.system"}, {"import": "os.system"}, {"import": "fdsm.cli.main.main"},
    {"class": "fdsm.runs.Run"}, {"value": None}, *TEXTS,
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


CELLS = (
    *TEXTS, '"', '""', "1,5", "1.234,5", "$ 5", "5 kg", "2024-02-30", "0001-01-01", "99999-12-31",
    "12:61", "true", "TRUE", "0x10", "1_000", "١٢٣", "½", "−1", "+-1", "1e400", "-1e-400", "#REF!",
    "1" * 5000, "1" * 4000 + "x", "1," * 50, ";" * 20, "\t", "'", "\ufeff", "x" * 140_000,
)  # fmt: skip


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


def change_zip(inner: Sequence[Mutation]) -> Mutation:
    """Return a change of the members of a zip file."""

    def change(rng: random.Random, content: bytes) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        except Exception:
            members = []
        if not members:
            return rng.choice(BYTES)(rng, content)
        at = rng.randrange(len(members))
        name, data = members[at]
        match rng.randrange(6):
            case 0 | 1:
                members[at] = (name, rng.choice((*inner, *BYTES))(rng, data))
            case 2:
                members.append((
                    rng.choice((
                        "junk",
                        "junk.npy",
                        "../x.png",
                        "/x.png",
                        "a\\..\\b.png",
                        "C:x.png",
                        "\x1b[1m.png",
                        "x/",
                        "é.png",
                        name,
                    )),
                    rng.choice((data, b"junk")),
                ))
            case 3:
                members[at] = (rng.choice(("", "x", "é.npy", ".png", "a\nb.png", "x" * 500)), data)
            case 4:
                del members[at]
            case _:
                pass
        methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", rng.choice(methods)) as archive:
            for name, data in members:
                archive.writestr(zipfile.ZipInfo(name), data, compress_type=rng.choice(methods))
        made = file.getvalue()
        return rng.choice(BYTES)(rng, made) if rng.random() < 0.5 else made

    return change


def change_gzip(inner: Sequence[Mutation]) -> Mutation:
    """Return a change of the content of a gzip file."""

    def change(rng: random.Random, content: bytes) -> bytes:
        try:
            data = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return rng.choice(BYTES)(rng, content)
        return gzip.compress(rng.choice((*inner, *BYTES))(rng, data), 1, mtime=0)

    return change


def change_tar(inner: Sequence[Mutation]) -> Mutation:
    """Return a change of the members of a compressed tar file."""

    def change(rng: random.Random, content: bytes) -> bytes:
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                files = [(m, archive.extractfile(m)) for m in archive.getmembers()]
                members = [(info, file.read() if file else b"") for info, file in files]
        except Exception:
            return rng.choice(BYTES)(rng, content)
        at = rng.randrange(len(members))
        info, data = members[at]
        data = rng.choice((*inner, *BYTES))(rng, data)
        info.size = len(data)
        match rng.randrange(4):
            case 0:
                info.name = rng.choice((
                    "../data_batch_1",
                    "/etc/x",
                    "\x1b[1mdata_batch_1",
                    "x" * 300,
                ))
            case 1:
                info.type = rng.choice((
                    tarfile.SYMTYPE,
                    tarfile.LNKTYPE,
                    tarfile.FIFOTYPE,
                    tarfile.GNUTYPE_SPARSE,
                ))
                info.linkname = "/etc/passwd"
            case _:
                pass
        members[at] = (info, data)
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
            for info, data in members:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return file.getvalue()

    return change


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


def mutate(rng: random.Random, content: bytes, structure: Sequence[Mutation]) -> bytes:
    """Return content with a few random changes, most of them of its structure."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        choice = structure if structure and rng.random() < 0.65 else BYTES
        content = rng.choice(choice)(rng, content)[:MAX_BYTES]
    return content


def change_state(rng: random.Random, content: bytes) -> bytes:
    """Change the state or a tensor of a checkpoint, with the digest of the new content."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    from fdsm.training.checkpoint import _digest

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
