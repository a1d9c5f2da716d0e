"""Tables of rules, as columns that pandas, polars, DuckDB and pyarrow read without a copy."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.prefetch import ahead
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE
from hierogram.storage.records import RuleRow
from hierogram.storage.records.columns import RuleDeltas

if TYPE_CHECKING:
    import pandas
    import polars

    from hierogram.storage.exports.snapshot import Snapshot

_SHOWN = 10
"""Rules that a notebook shows."""


class _Side(NamedTuple):
    """Texts one after the other, as Arrow has them: bytes, and int32[n + 1] where each begins."""

    content: Any
    offsets: NDArray[np.int32]

    def text(self, row: int) -> str:
        return bytes(self.content[self.offsets[row] : self.offsets[row + 1]]).decode()


def _side_of(lines: bytes) -> _Side:
    """Return the lines, of which the last has no end, as Arrow has texts."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 2, np.int32)
    offsets[1:-1] = ends
    offsets[-1] = len(lines)
    offsets[1:] -= np.arange(len(ends) + 1, dtype=np.int32)
    return _Side(lines.replace(b"\n", b""), offsets)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some thousand rules: entry k of every column is the same rule."""

    id: NDArray[np.int64]
    source: _Side
    target: _Side
    length: NDArray[np.int32]
    scope: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    hiero: NDArray[np.bool_]
    expected_uses: NDArray[np.float64]
    expected_uses_error: NDArray[np.float64]
    count: NDArray[np.int64]
    p_target_given_source: NDArray[np.float64]
    p_source_given_target: NDArray[np.float64]

    def row(self, at: int) -> RuleRow:
        """Return one of the rules."""
        return RuleRow(
            *(getattr(self, name).text(at) if name in _TEXTS else getattr(self, name)[at].item() for name in COLUMNS)
        )


COLUMNS = tuple(field.name for field in fields(_Batch))
"""The columns of a table of rules: those of `RuleRow`."""


class RuleTable:
    """Rules as columns, whose names and meanings are those of `RuleRow`; a sequence of these, too.

    It has Arrow's `__arrow_c_stream__`: `polars.DataFrame(table)`, `pyarrow.table(table)`,
    `pandas.DataFrame.from_arrow(table)`, and DuckDB's `FROM table` read it. Texts are UTF-8, uses float64, numbers of
    uses in the present derivations int64. It does not change, and may be read from several threads.
    """

    columns = COLUMNS

    def __init__(self, batches: Sequence[_Batch]) -> None:
        self._batches = batches
        self._starts = np.cumsum([0, *(len(batch.id) for batch in batches)])

    def __len__(self) -> int:
        """Return how many rules there are."""
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[RuleRow]:
        """Yield the rules."""
        return (batch.row(at) for batch in self._batches for at in range(len(batch.id)))

    def __getitem__(self, at: int) -> RuleRow:
        """Return the rule at a place, which may be counted from the end."""
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"the table has {len(self)} rules, and none at {at}")
        batch = int(np.searchsorted(self._starts, place, "right")) - 1
        return self._batches[batch].row(place - int(self._starts[batch]))

    def column(self, name: str) -> Any:
        """Return a column: a list of texts, or an array of numbers."""
        parts = [getattr(batch, name) for batch in self._batches]
        if name in _TEXTS:
            return [side.text(row) for side in parts for row in range(len(side.offsets) - 1)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def top(self, number: int, by: str = "expected_uses") -> list[RuleRow]:
        """Return the rules with the largest values in a column, the largest first; equal ones by their sides."""
        values = self.column(by)
        if len(values) > number > 0:
            values = values[values >= -np.partition(-values, number - 1)[number - 1]]
        least = values.min() if len(values) else 0
        places = np.flatnonzero(self.column(by) >= least)
        found = sorted((self[at] for at in places.tolist()), key=lambda rule: (rule.source, rule.target))
        found.sort(key=lambda rule: getattr(rule, by), reverse=True)
        return found[:number]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a stream of Arrow, in batches, without a copy of its columns."""
        import nanoarrow
        from nanoarrow.c_array_stream import CArrayStream

        kinds = {name: getattr(nanoarrow, kind)(nullable=False) for name, kind in _KINDS.items()}
        schema = nanoarrow.c_schema(nanoarrow.struct(kinds, nullable=False))
        arrays = [_arrow(batch, kinds, schema) for batch in self._batches]
        return CArrayStream.from_c_arrays(arrays, schema).__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table as a data frame of pandas, which has to be installed; without pyarrow too."""
        import pandas

        return pandas.DataFrame({name: self.column(name) for name in COLUMNS})

    def to_polars(self) -> "polars.DataFrame":
        """Return the table as a data frame of polars, which has to be installed."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        return f"RuleTable({len(self):,} rules)"

    def _repr_html_(self) -> str:
        """Return the most used rules for a notebook."""
        head = ("uses", "±", "p(e|f)", "p(f|e)", "source", "target")
        rows = [
            (
                f"{rule.expected_uses:.2f}", f"{rule.expected_uses_error:.2f}", f"{rule.p_target_given_source:.3f}",
                f"{rule.p_source_given_target:.3f}", rule.source, rule.target,
            )
            for rule in self.top(_SHOWN)
        ]  # fmt: skip
        return f"{html_table(head, rows)}<p>{len(self):,} rules</p>"


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for notebooks."""
    lines = [("th", head), *(("td", row) for row in rows)]
    made = ("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>" for tag, cells in lines)
    return f"<table>{''.join(made)}</table>"


_TEXTS = ("source", "target")
_KINDS = dict(
    zip(COLUMNS, ("int64", "string", "string", *["int32"] * 3, "bool_", *["float64"] * 2, "int64", *["float64"] * 2),
        strict=True)
)  # fmt: skip
"""Types of Arrow, by column; but for texts numpy has the same."""


def _dtype(name: str) -> "np.dtype[Any]":
    return np.dtype(_KINDS[name].rstrip("_"))


def _arrow(batch: _Batch, kinds: dict[str, Any], schema: Any) -> Any:
    """Return a batch as an Arrow array, which keeps the columns' memory alive."""
    from nanoarrow import c_array_from_buffers

    size = len(batch.id)
    children = []
    for name, kind in kinds.items():
        column = getattr(batch, name)
        if name in _TEXTS:
            buffers = [None, column.offsets, column.content]
        elif name == "hiero":
            buffers = [None, np.packbits(column, bitorder="little")]
        else:
            buffers = [None, column]
        children.append(c_array_from_buffers(kind, size, buffers, null_count=0))
    return c_array_from_buffers(schema, size, [None], null_count=0, children=children)


def table_of_rows(rows: Sequence[RuleRow]) -> RuleTable:
    """Return a few rules, which were looked for one by one, as a table in their order."""
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    return RuleTable([_batch(columns)] if rows else [])


def _batch(columns: dict[str, Any]) -> _Batch:
    """Return columns of texts and numbers as a batch."""
    made: dict[str, Any] = {
        name: _side_of("\n".join(column).encode()) if name in _TEXTS else np.asarray(column, _dtype(name))
        for name, column in columns.items()
    }
    return _Batch(**made)


def table_of_deltas(rules: RuleDeltas) -> RuleTable:
    """Return rules that are in use in memory, as a table with the most used first; they are numbered from 1."""
    order = np.lexsort((-rules.counts, -rules.expected_uses))[: np.count_nonzero(rules.expected_uses > 0)]
    if not len(order):
        return RuleTable([])
    uses = rules.expected_uses[order]
    sides = {name: getattr(rules, f"{name}s").strings() for name in _TEXTS}
    columns = {name: [texts[row] for row in order.tolist()] for name, texts in sides.items()}
    hashes = {name: np.array([hash(text) for text in texts]) for name, texts in columns.items()}
    return RuleTable([_batch({
        "id": np.arange(1, len(order) + 1),
        **columns,
        "length": rules.lengths[order],
        "scope": rules.scopes[order],
        "nonterminals": rules.nonterminals[order],
        "hiero": rules.hiero[order],
        "expected_uses": uses,
        "expected_uses_error": np.sqrt(rules.expected_uses_variances[order]),
        "count": rules.counts[order],
        "p_target_given_source": uses / _totals(hashes["source"], uses),
        "p_source_given_target": uses / _totals(hashes["target"], uses),
    })])  # fmt: skip


_SHAPE = ("length", "scope", "nonterminals", "hiero")
_SHAPE_BITS = 15
"""Bits of each of these in one number, since the database writes each number as a text."""
_READ = (
    *_TEXTS,
    "id",
    " + ".join(f"CAST({name} AS BIGINT) * {1 << _SHAPE_BITS * k}" for k, name in enumerate((*_SHAPE[:3],)))
    + f" + CAST(hiero AS INTEGER) * CAST({1 << _SHAPE_BITS * 3} AS BIGINT)",
    f"CAST(expected_uses_variance * {ONE_SQUARE} AS BIGINT)",
)
"""What is read of each rule, beside its uses of both kinds."""


def table_of_store(snapshot: "Snapshot", drawn: bool) -> RuleTable:
    """Return all rules in use, in the order in which the store has them.

    A rule is in use that is expected to be used, or, `drawn`, that the present derivations use; probabilities are
    relative frequencies of the same uses.
    """
    other = f"CAST(expected_uses * {ONE_USE} AS BIGINT)" if drawn else "count"
    batches: list[_Batch] = []
    hashes: tuple[list[NDArray[np.int64]], ...] = ([], [])
    uses: list[NDArray[np.int64]] = []
    # The database reads the next block while this one is taken apart.
    with closing(ahead(snapshot.rule_blocks((*_READ, other), expected=not drawn))) as blocks:
        for _, block in blocks:
            sides = [side.encode() for side in block[:2]]
            source, target = map(_side_of, sides)
            numbers = [np.fromstring(column, np.int64, sep="\n") for column in block[2:]]
            ids, shapes, variances, others, used = numbers
            for of_side, lines in zip(hashes, sides, strict=True):
                of_side.append(np.fromiter(map(hash, lines.split(b"\n")), np.int64, len(ids)))
            uses.append(used)
            expected, counts = (others, used) if drawn else (used, others)
            length, scope, nonterminals, hiero = (
                (shapes >> _SHAPE_BITS * k & (1 << _SHAPE_BITS) - 1).astype(np.int32) for k in range(len(_SHAPE))
            )
            nothing = np.zeros(0)
            batches.append(
                _Batch(
                    ids, source, target, length, scope, nonterminals, hiero.astype(np.bool_),
                    expected / ONE_USE, np.sqrt(variances / ONE_SQUARE), counts, nothing, nothing,
                )
            )  # fmt: skip
    if not batches:
        return RuleTable([])
    every = np.concatenate(uses)
    ends = np.cumsum([len(batch.id) for batch in batches])[:-1]
    of_source, of_target = (np.split(every / _totals(np.concatenate(of_side), every), ends) for of_side in hashes)
    return RuleTable(
        [
            replace(batch, p_target_given_source=forward, p_source_given_target=backward)
            for batch, forward, backward in zip(batches, of_source, of_target, strict=True)
        ]
    )


def _totals(hashes: NDArray[np.int64], uses: NDArray[Any]) -> NDArray[Any]:
    """Return for each rule the uses of all rules with the same side, which a hash of 64 bits stands for."""
    order = np.argsort(hashes)
    of_side = hashes[order]
    first = np.flatnonzero(np.concatenate(([True], of_side[1:] != of_side[:-1])))
    totals = np.empty(len(uses), uses.dtype)
    totals[order] = np.repeat(np.add.reduceat(uses[order], first), np.diff(np.append(first, len(uses))))
    return totals
