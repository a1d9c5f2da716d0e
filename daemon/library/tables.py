"""Tables of rules in Arrow's layout, for pandas, polars, DuckDB and pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.arrow import ArrowTable
from hierogram.daemon.prefetch import prefetch
from hierogram.samplers.grammar.columns import join_texts, split_lines
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.grammar import CountKind, RuleRow
from hierogram.storage.records.uncertainty import standard_errors

if TYPE_CHECKING:
    import pandas
    import polars

    from hierogram.storage.exports.snapshot import Snapshot

_DISPLAYED_RULES = 10

COLUMNS = tuple(field.name for field in fields(RuleRow))
"""Names of the columns of a `RuleTable`, in order."""


class RuleTable:
    """Immutable table of rules, stored in columns and usable as a sequence of `RuleRow`.

    The table implements Arrow's `__arrow_c_stream__`, so `polars.DataFrame(table)`, `pyarrow.table(table)`,
    `pandas.DataFrame.from_arrow(table)` and DuckDB's `FROM table` can read it. Texts are UTF-8, expected uses float64,
    counts in the current derivations int64. Several threads may read it.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Create a table from columns by name: `Texts` for texts, an array for numbers."""
        self._values = values

    def __len__(self) -> int:
        return len(self._values["id"])

    def __iter__(self) -> Iterator[RuleRow]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> RuleRow:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"index {index} is out of range for a table of {len(self)} rules")
        values = self._values
        return RuleRow(*(values[name].string(row) if name in _TEXTS else values[name][row].item() for name in COLUMNS))

    def column(self, name: str) -> Any:
        """Return a column: a list of texts, or the table's own array of numbers."""
        column = self._values[name]
        return column.strings() if name in _TEXTS else column

    def top(self, number: int, by: str = "expected_uses") -> list[RuleRow]:
        """Return up to `number` rules with the largest values in a column. Ties are sorted by both sides."""
        values = self.column(by)
        if len(values) > number > 0:
            values = values[values >= -np.partition(-values, number - 1)[number - 1]]
        threshold = values.min() if len(values) else 0
        rows_above = np.flatnonzero(self.column(by) >= threshold)
        rules = sorted((self[row] for row in rows_above.tolist()), key=lambda rule: (rule.source, rule.target))
        rules.sort(key=lambda rule: getattr(rule, by), reverse=True)
        return rules[:number]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        columns = {name: self._values[name] for name in COLUMNS}
        return ArrowTable(columns).__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table as a pandas data frame. Requires pandas, but not pyarrow."""
        import pandas

        return pandas.DataFrame({name: self.column(name) for name in COLUMNS})

    def to_polars(self) -> "polars.DataFrame":
        """Return the table as a polars data frame. Requires polars."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        return f"RuleTable({len(self):,} rules)"

    def _repr_html_(self) -> str:
        head = ("uses", "±", "p(e|f)", "p(f|e)", "source", "target")
        rows = [
            (
                f"{rule.expected_uses:.2f}", f"{rule.expected_uses_error:.2f}", f"{rule.p_target_given_source:.3f}",
                f"{rule.p_source_given_target:.3f}", rule.source, rule.target,
            )
            for rule in self.top(_DISPLAYED_RULES)
        ]  # fmt: skip
        lines = [("th", head), *(("td", row) for row in rows)]
        html = ("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>" for tag, cells in lines)
        return f"<table>{''.join(html)}</table><p>{len(self):,} rules</p>"


_TEXTS = ("source", "target")
_NUMBER_DTYPES = dict.fromkeys(COLUMNS, "float64") | {
    "id": "int64", "length": "int32", "scope": "int32", "nonterminals": "int32", "hiero": "bool", "count": "int64",
}  # fmt: skip


def table_from_rows(rows: Sequence[RuleRow]) -> RuleTable:
    """Convert rules to a table in the same order."""
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    return RuleTable({
        name: join_texts(column) if name in _TEXTS else np.asarray(column, _NUMBER_DTYPES[name])
        for name, column in columns.items()
    })  # fmt: skip


def _make_table(
    sides: Sequence[Sequence[bytes]], uses: NDArray[Any], variances: NDArray[np.float64], numbers: Mapping[str, Any]
) -> RuleTable:
    """Make a table of rules, given blocks of lines of both sides. Probabilities are relative `uses`."""
    p = []
    for blocks in sides:
        lines = chain.from_iterable(block.split(b"\n") for block in blocks)
        p.append(uses / _sum_by_hash(np.fromiter(map(hash, lines), np.int64, len(uses)), uses))
    columns = (split_lines(b"".join(block + b"\n" for block in blocks)) for blocks in sides)
    return RuleTable({
        **numbers, **dict(zip(_TEXTS, columns, strict=True)),
        "expected_uses_error": standard_errors(numbers["expected_uses"], variances),
        "p_target_given_source": p[0], "p_source_given_target": p[1],
    })  # fmt: skip


def table_from_deltas(rules: RuleDeltas) -> RuleTable:
    """Convert counts to a table of the rules with expected uses above 0, most used first. Ids start at 1."""
    order = np.lexsort((-rules.count, -rules.expected_uses))[: np.count_nonzero(rules.expected_uses > 0)]
    if not len(order):
        return table_from_rows([])
    texts = [getattr(rules, name).strings() for name in _TEXTS]
    sides = [[texts_of_side[row].encode() for row in order.tolist()] for texts_of_side in texts]
    names = ("length", "scope", "nonterminals", "hiero", "expected_uses", "count")
    numbers = {name: getattr(rules, name)[order] for name in names}
    variances = rules.expected_uses_variance[order]
    return _make_table(sides, numbers["expected_uses"], variances, {"id": np.arange(1, len(order) + 1), **numbers})


_READ_EXPRESSIONS = (
    *_TEXTS, "id", "length", "scope", "nonterminals", "CAST(hiero AS INTEGER)",
    f"CAST(expected_uses_variance * {ONE_SQUARE} AS BIGINT)",
)  # fmt: skip
"""SQL expressions of the columns read for each rule, except expected uses and counts."""


def table_from_store(snapshot: "Snapshot", current_sample: bool) -> RuleTable:
    """Read the rules with expected or current uses, in order of id. Probabilities are relative uses."""
    # `rule_blocks` appends the uses of `count_kind`, so only the other kind of uses must be selected here.
    other_count = f"CAST(expected_uses * {ONE_USE} AS BIGINT)" if current_sample else "count"
    sides: tuple[list[bytes], list[bytes]] = [], []
    numbers: list[NDArray[np.int64]] = []
    # Prefetch, so that the database reads the next block while this block is parsed.
    count_kind = CountKind.CURRENT_SAMPLE if current_sample else CountKind.POSTERIOR_MEAN
    with closing(prefetch(snapshot.rule_blocks((*_READ_EXPRESSIONS, other_count), count_kind))) as blocks:
        for _, block in blocks:
            for side, column in zip(sides, block[:2], strict=True):
                side.append(column.encode())
            numbers.append(np.stack([np.fromstring(column, np.int64, sep="\n") for column in block[2:]]))
    if not numbers:
        return table_from_rows([])
    ids, *shape, hiero, variances, other_counts, used = np.concatenate(numbers, axis=1)
    expected, counts = (other_counts, used) if current_sample else (used, other_counts)
    length, scope, nonterminals = (column.astype(np.int32) for column in shape)
    return _make_table(sides, used, variances / ONE_SQUARE, {
        "id": ids, "length": length, "scope": scope, "nonterminals": nonterminals, "hiero": hiero.astype(np.bool_),
        "expected_uses": expected / ONE_USE, "count": counts,
    })  # fmt: skip


def _sum_by_hash(hashes: NDArray[np.int64], uses: NDArray[Any]) -> NDArray[Any]:
    """Return for each row the sum of `uses` over all rows with the same hash."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    totals = np.empty(len(uses), uses.dtype)
    totals[order] = np.repeat(np.add.reduceat(uses[order], first), np.diff(np.append(first, len(uses))))
    return totals
