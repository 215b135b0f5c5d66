"""Tests of what may be read, how large it may become, and how it is quoted."""

import gzip
import io
import os
from pathlib import Path

import pytest

from fdsm.serialize import RecordError
from fdsm.tables import DataError, ModelError
from fdsm.training.checkpoint import CheckpointError
from fdsm.untrusted import (
    MAX_JSON_DEPTH,
    MAX_MESSAGE,
    Decompressed,
    InputError,
    expansion_limit,
    parse_json,
    printable,
    quote,
    read_file,
    read_json,
    require_file,
    shorten,
)


@pytest.mark.parametrize("kind", [DataError, ModelError, CheckpointError, RecordError])
def test_errors_of_all_layers_are_short_and_printable(kind: type[InputError]) -> None:
    error = kind("a.csv has \x1b]0;title\x07" + "x" * 10**6 + "\n- remove it")
    assert isinstance(error, InputError)
    assert isinstance(error, ValueError)
    assert len(str(error)) == MAX_MESSAGE
    assert str(error).startswith("a.csv has \N{REPLACEMENT CHARACTER}]0;title")
    assert str(error).endswith("x\n- remove it")


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x07", "\x1b", "\x7f", "\x9b", "\r", "\n", "\u202e", "\u2066", "\u2028", "\ud800"],
)
def test_characters_that_control_a_terminal_are_replaced(character: str) -> None:
    assert printable(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"
    assert printable("Größe ≥ 5 µm, 日本語 [bold]") == "Größe ≥ 5 µm, 日本語 [bold]"


def test_long_text_loses_its_middle() -> None:
    assert shorten("0123456789", 10) == "0123456789"
    assert shorten("0123456789", 7) == "012…789"
    assert quote("x\x1b") == r"'x\x1b'"
    assert len(quote("y" * 10**7)) < 130
    assert len(quote(["y" * 10**5])) < 130


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"12345")
    assert require_file(file) == 5
    (tmp_path / "link").symlink_to(file)
    assert read_file(tmp_path / "link") == b"12345"
    os.mkfifo(pipe)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for path, reason in {
        pipe: "pipe is a pipe",
        tmp_path: "is a folder",
        Path("/dev/zero"): "/dev/zero is a device",
        tmp_path / "nothing": "nothing cannot be read: No such file",
        tmp_path / "dangling": "dangling cannot be read: No such file",
        tmp_path / "a\0b": "cannot be read: .*embedded null",
        tmp_path / ("n" * 300): "cannot be read: File name too long",
    }.items():
        with pytest.raises(DataError, match=reason):
            require_file(path, DataError)
    with pytest.raises(ModelError, match="file has 5 bytes, more than 4"):
        read_file(file, ModelError, 4)


def test_json_is_bounded_in_depth_and_size(tmp_path: Path) -> None:
    nested = lambda depth: "[" * depth + "]" * depth
    assert parse_json(nested(MAX_JSON_DEPTH)) is not None
    assert parse_json("[" + "[]," * 100 + nested(MAX_JSON_DEPTH - 1) + "]") is not None
    assert parse_json(b"\xef\xbb\xbf \n[1] \n") == [1]
    for depth in (MAX_JSON_DEPTH + 1, 900, 10**6):
        with pytest.raises(InputError, match="it is nested more than 64 times"):
            parse_json(nested(depth))
    path = tmp_path / "a.json"
    for content in (b"", b"{", b"\xff", b'{"a": 1} x', b"1" * 5000):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"a\.json is damaged: it is not JSON"):
            read_json(path, ModelError)
    with path.open("wb") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(ModelError, match=r"a\.json has 67,108,865 bytes, more than 67,108,864"):
        read_json(path, ModelError)


def test_compressed_files_expand_up_to_a_limit() -> None:
    content = gzip.compress(b"0123456789" * 1000)
    assert (
        io.BufferedReader(Decompressed(io.BytesIO(content), 10_000)).read() == b"0123456789" * 1000
    )
    with pytest.raises(InputError, match="expands to more than 9,999 bytes"):
        io.BufferedReader(Decompressed(io.BytesIO(content), 9_999)).read()
    with pytest.raises(InputError, match="is damaged"):
        io.BufferedReader(Decompressed(io.BytesIO(content[:-10]), 10_000)).read()
    assert expansion_limit(0) == 2**27
    assert expansion_limit(10**7) == 2 * 10**8


def test_files_that_are_not_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json is damaged: it is not JSON"):
        read_json(path)
