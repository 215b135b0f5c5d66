"""Replace column types for which arrow has few functions."""

import pyarrow as pa


def plain_types(frame: pa.Table) -> pa.Table:
    """Return a table without string views, and with text in dictionaries.

    So categories that are numbers, such as those of pandas, are categories and not numbers.

    Args:
        frame: The table.

    Returns:
        The table. Dictionaries of types that have no text, such as lists, are unchanged.

    Example:
        >>> import pyarrow as pa
        >>> plain_types(pa.table({"grade": pa.array([3, 1, 3]).dictionary_encode()}))["grade"].type
        DictionaryType(dictionary<values=large_string, indices=int32, ordered=0>)
    """
    columns = [_plain(column) for column in frame.columns]
    if [column.type for column in columns] == frame.schema.types:
        return frame
    return pa.Table.from_arrays(columns, frame.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind, text = column.type, pa.large_string()
    if pa.types.is_string_view(kind):
        return column.cast(text)
    if not pa.types.is_dictionary(kind) or pa.types.is_string(kind.value_type):
        return column
    try:
        chunks = [
            pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(text))
            for part in column.chunks
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column
    return pa.chunked_array(chunks, pa.dictionary(kind.index_type, text))
