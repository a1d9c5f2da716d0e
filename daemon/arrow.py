"""Columns of texts and numbers in Arrow's layout, and tables for Arrow's readers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LINE_FEED = 10


class TextColumn(NamedTuple):
    """Column of n UTF-8 texts: row i is `content[offsets[i] : offsets[i + 1]]`, with n + 1 `offsets`."""

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def text(self, row: int) -> str:
        """Return the text of a row."""
        return self.content[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()


def column_from_lines(lines: NDArray[np.uint8]) -> TextColumn:
    """Convert UTF-8 lines, which all end in a line feed, to a column of texts without line feeds."""
    is_end = lines == _LINE_FEED
    ends = np.flatnonzero(is_end)
    return TextColumn(lines[~is_end], np.append(0, ends - np.arange(len(ends))))


Columns = Mapping[str, TextColumn | NDArray[Any]]
"""Columns of equal length by name, without NULLs: texts, numbers or booleans."""


class ArrowTable:
    """Table for readers of the Arrow PyCapsule protocol, from batches with the same columns."""

    def __init__(self, *batches: Columns) -> None:
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import nanoarrow
        from nanoarrow import c_array_from_buffers
        from nanoarrow.c_array_stream import CArrayStream

        kinds = {}
        for name, column in self._batches[0].items():
            kind = "large_string" if isinstance(column, TextColumn) else column.dtype.name
            kinds[name] = getattr(nanoarrow, "bool_" if kind == "bool" else kind)(nullable=False)
        schema = nanoarrow.c_schema(nanoarrow.struct(kinds, nullable=False))
        arrays = []
        for columns in self._batches:
            children = []
            for kind, column in zip(kinds.values(), columns.values(), strict=True):
                if isinstance(column, TextColumn):
                    length, buffers = len(column.offsets) - 1, [column.offsets, column.content]
                elif column.dtype == np.bool_:
                    length, buffers = len(column), [np.packbits(column, bitorder="little")]
                else:
                    length, buffers = len(column), [np.ascontiguousarray(column)]
                children.append(c_array_from_buffers(kind, length, [None, *buffers], null_count=0))
            arrays.append(c_array_from_buffers(schema, length, [None], null_count=0, children=children))
        return CArrayStream.from_c_arrays(arrays, schema).__arrow_c_stream__(requested_schema)
