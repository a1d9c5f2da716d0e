"""Tables for Arrow's readers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.columns import Texts

_LINE_FEED = 10

Columns = Mapping[str, Texts | NDArray[Any]]
"""Columns of equal length by name, without NULLs: texts, numbers or booleans."""


class ArrowTable:
    """Table for readers of the Arrow PyCapsule protocol, from batches with the same columns."""

    def __init__(self, *batches: Columns) -> None:
        self._batches = [list(map(_arrow_array, columns.values())) for columns in batches]
        self._names = list(batches[0])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import nanoarrow
        from nanoarrow import c_array_from_buffers
        from nanoarrow.c_array_stream import CArrayStream

        kinds = [getattr(nanoarrow, kind)(nullable=False) for kind, *_ in self._batches[0]]
        schema = nanoarrow.c_schema(nanoarrow.struct(dict(zip(self._names, kinds, strict=True)), nullable=False))
        arrays = []
        for batch in self._batches:
            children = [
                c_array_from_buffers(kind, length, [None, *buffers], null_count=0)
                for kind, (_, length, buffers) in zip(kinds, batch, strict=True)
            ]
            arrays.append(c_array_from_buffers(schema, batch[0][1], [None], null_count=0, children=children))
        return CArrayStream.from_c_arrays(arrays, schema).__arrow_c_stream__(requested_schema)


def _arrow_array(column: Texts | NDArray[Any]) -> tuple[str, int, list[NDArray[Any]]]:
    """Return the name of nanoarrow's type, the length, and the buffers except the one for NULLs."""
    if isinstance(column, Texts):
        without_ends = column.content[column.content != _LINE_FEED]
        return "large_string", column.size, [column.offsets - np.arange(len(column.offsets)), without_ends]
    if column.dtype == np.bool_:
        return "bool_", len(column), [np.packbits(column, bitorder="little")]
    return column.dtype.name, len(column), [np.ascontiguousarray(column)]
