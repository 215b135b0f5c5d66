"""How large the compressed messages of an arrow file become, without decompressing them.

An arrow file is a list of messages: metadata, as a flatbuffer, and a body of buffers. The metadata
of a record batch lists the buffers and says whether they are compressed. A compressed buffer
begins with its decompressed size.

References:
    https://arrow.apache.org/docs/format/Columnar.html, section Serialization and IPC.
    https://flatbuffers.dev/internals
"""

import struct

import pyarrow as pa

RECORD_BATCH, DICTIONARY_BATCH = 3, 2
"""Types of messages that have a body."""


def decompressed_size(message: pa.ipc.Message) -> int:
    """Return the number of bytes of the body of a message after decompression.

    Args:
        message: A message of an arrow file or stream.

    Returns:
        The sum of the sizes that the buffers declare. pyarrow allocates these sizes.

    Raises:
        ValueError: If the metadata is damaged.
    """
    body = message.body
    if body is None:
        return 0
    data = memoryview(message.metadata).cast("B")
    try:
        root = struct.unpack_from("<I", data)[0]
        (kind,) = struct.unpack_from("<B", data, _field(data, root, 1))
        batch = _follow(data, _field(data, root, 2))
        if kind == DICTIONARY_BATCH:
            batch = _follow(data, _field(data, batch, 1))
        if kind not in {RECORD_BATCH, DICTIONARY_BATCH} or not _field(data, batch, 3):
            return int(body.size)
        buffers = _follow(data, _field(data, batch, 2))
        (count,) = struct.unpack_from("<I", data, buffers)
        extents = struct.iter_unpack("<qq", data[buffers + 4 : buffers + 4 + 16 * count])
        content = memoryview(body).cast("B")
        return sum(_declared(content, offset, length) for offset, length in extents)
    except (struct.error, IndexError) as error:
        raise ValueError(f"the metadata of a message is damaged ({error})") from error


def _declared(content: memoryview, offset: int, length: int) -> int:
    """Return the declared size of a compressed buffer, or its size if it is not compressed."""
    if length < 8 or offset < 0 or offset + 8 > len(content):
        return max(length, 0)
    (size,) = struct.unpack_from("<q", content, offset)
    return int(length if size == -1 else max(size, 0))


def _field(data: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer table, or 0 if it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size, _ = struct.unpack_from("<HH", data, vtable)
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", data, vtable + slot)[0] if slot < size else 0
    return table + int(offset) if offset else 0


def _follow(data: memoryview, position: int) -> int:
    """Return the position that an offset field refers to."""
    return position + int(struct.unpack_from("<I", data, position)[0])
