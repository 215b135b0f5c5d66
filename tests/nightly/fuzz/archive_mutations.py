"""Random changes of the members of archives and compressed files."""

import gzip
import io
import random
import tarfile
import zipfile
import zlib
from collections.abc import Sequence

from .mutations import BYTES, Mutation


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
