"""Interpolated modified Kneser-Ney smoothing [Chen & Goodman 1999], in a scratch database within a bound of memory.

Tables by order n, columns w1 … wn: `grams` (all n-grams with `raw`, how often they occur, and `types`, how many words
stand before them), `counts` (adjusted counts), `contexts` (of n - 1 words: sum of counts, weight of the lower order),
`probabilities`, and `listed`, sorted, with log10 probabilities and backoff weights. The models page has the equations.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.language_models.arpa import NEVER
from hierogram.samplers.language_models.listing import NGrams
from hierogram.samplers.language_models.model import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where a text is too small to estimate them, as KenLM has them."""

_ROWS = 1 << 18


class Discounts(NamedTuple):
    """What is taken from counts of 1, 2, and 3 or more; whether these could be estimated."""

    values: tuple[float, float, float]
    estimated: bool


def discounts_of(numbers: Sequence[int]) -> Discounts:
    """The discounts, from the numbers of n-grams that have the adjusted counts 1, 2, 3, 4 [Chen & Goodman 1999]."""
    if all(numbers):
        scale = numbers[0] / (numbers[0] + 2 * numbers[1])
        values = [k - (k + 1) * scale * numbers[k] / numbers[k - 1] for k in (1, 2, 3)]
        if all(0 <= value <= k for k, value in enumerate(values, 1)):
            return Discounts((values[0], values[1], values[2]), True)
    return Discounts(FALLBACK, False)


class KneserNey:
    """Estimates a model of an order from the n-grams of a text."""

    def __init__(self, connection: "DuckDBPyConnection", order: int) -> None:
        self.order = order
        self._run = connection.execute
        self._run(f"CREATE TABLE occurrences ({', '.join(f'{w} INTEGER' for w in _words(order))})")

    def add(self, ngrams: NDArray[np.int32]) -> None:
        """Take the n-grams that end at each word, int32[order, n], padded with BEGIN where a sentence begins."""
        columns = dict(zip(_words(self.order), ngrams, strict=True))
        assert len(columns) == self.order
        self._run("INSERT INTO occurrences SELECT * FROM columns")

    def count(self) -> Iterator[int]:
        """Count the n-grams of all orders, from the highest; each order when it is done."""
        top = self.order
        self._run(
            f"CREATE TABLE grams{top} AS SELECT *, count(*) AS raw, 0::BIGINT AS types FROM occurrences GROUP BY ALL"
        )
        self._run("DROP TABLE occurrences")
        for n in range(top, 0, -1):
            if n < top:
                longer = ", ".join(f"w{k + 1} AS w{k}" for k in range(1, n + 1))
                self._run(
                    f"CREATE TABLE grams{n} AS SELECT {longer}, sum(raw)::BIGINT AS raw, count(*) AS types "
                    f"FROM grams{n + 1} GROUP BY ALL"
                )
                self._run(f"DROP TABLE grams{n + 1}")
            adjusted = "raw" if n == top else f"CASE WHEN w1 = {BEGIN} THEN raw ELSE types END"
            whole = f"WHERE w1 <> {BEGIN} OR w2 <> {BEGIN}" if n > 1 else ""
            self._run(f"CREATE TABLE counts{n} AS SELECT {_list(n)}, {adjusted} AS count FROM grams{n} {whole}")
            yield n
        self._run("DROP TABLE grams1")

    def discounts(self, n: int) -> Discounts:
        """The discounts of n-grams."""
        numbers = self._row(f"SELECT {', '.join(f'count(*) FILTER (count = {k})' for k in range(1, 5))} FROM counts{n}")
        return discounts_of([int(number) for number in numbers])

    def smooth(self, n: int, vocabulary: int, discounts: Discounts) -> None:
        """The probabilities of n-grams, when those of shorter ones are known."""
        one, two, more = discounts.values
        discount = f"CASE count WHEN 1 THEN {one!r} WHEN 2 THEN {two!r} ELSE {more!r} END"
        context = _list(n - 1)
        self._run(
            f"CREATE TABLE contexts{n} AS SELECT {context + ',' if context else ''} sum(count)::BIGINT AS total, "
            f"({one!r} * count(*) FILTER (count = 1) + {two!r} * count(*) FILTER (count = 2) "
            f"+ {more!r} * count(*) FILTER (count > 2)) / sum(count)::DOUBLE AS weight FROM counts{n} "
            f"{'GROUP BY ALL' if context else ''}"
        )
        if n == 1:
            # BEGIN is never predicted; all other words share what discounting leaves.
            self._run(
                f"CREATE TABLE probabilities1 AS SELECT w1, (coalesce(count - ({discount}), 0) / total "
                f"+ weight / {vocabulary - 1}) AS probability FROM "
                f"(SELECT * FROM counts1 UNION ALL SELECT {UNKNOWN}, NULL WHERE NOT EXISTS "
                f"(SELECT * FROM counts1 WHERE w1 = {UNKNOWN})), contexts1"
            )
            self._run(f"INSERT INTO probabilities1 VALUES ({BEGIN}, 0)")
            return
        lower = " AND ".join(f"l.w{k} = c.w{k + 1}" for k in range(1, n))
        words = ", ".join(f"c.{w}" for w in _words(n))
        self._run(
            f"CREATE TABLE probabilities{n} AS SELECT {words}, "
            f"(c.count - ({discount})) / x.total + x.weight * l.probability AS probability "
            f"FROM counts{n} c JOIN contexts{n} x USING ({context}) JOIN probabilities{n - 1} l ON {lower}"
        )

    def list(self, n: int) -> Iterator[NGrams]:
        """The n-grams with their probabilities and backoff weights, sorted; those of the next order are known."""
        backoff, join = "0", ""
        if n < self.order:
            # Where nothing is left for the lower order, the logarithm has no value.
            backoff = f"CASE WHEN weight IS NULL THEN 0 WHEN weight > 0 THEN log10(weight) ELSE {NEVER} END"
            join = f"LEFT JOIN contexts{n + 1} USING ({_list(n)})"
        self._run(
            f"CREATE TABLE listed{n} AS SELECT {_list(n)}, ({_log10('probability')})::FLOAT AS log10, "
            f"({backoff})::FLOAT AS backoff FROM probabilities{n} {join} ORDER BY {_list(n)}"
        )
        for table in (f"counts{n}", f"contexts{n}", *([f"probabilities{n - 1}"] if n > 1 else [])):
            self._run(f"DROP TABLE {table}")
        (rows,) = self._row(f"SELECT count(*) FROM listed{n}")
        for start in range(0, rows, _ROWS):
            found = self._run(
                f"SELECT * FROM listed{n} WHERE rowid >= {start} AND rowid < {start + _ROWS} ORDER BY rowid"
            ).fetchnumpy()
            words = np.stack([found[w] for w in _words(n)], axis=1)
            yield NGrams(words, found["log10"], found["backoff"])
        self._run(f"DROP TABLE listed{n}")

    def number(self, n: int) -> int:
        """How many n-grams there are; of unigrams without those that did not occur."""
        return int(self._row(f"SELECT count(*) FROM counts{n}")[0])

    def _row(self, query: str) -> tuple[int, ...]:
        found = self._run(query).fetchone()
        assert found is not None
        return found


def _words(n: int) -> list[str]:
    return [f"w{k}" for k in range(1, n + 1)]


def _list(n: int) -> str:
    return ", ".join(_words(n))


def _log10(value: str) -> str:
    return f"CASE WHEN {value} > 0 THEN log10({value}) ELSE {NEVER} END"
