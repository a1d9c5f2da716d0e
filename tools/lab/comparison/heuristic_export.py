"""Export of heuristic grammars in any export format.

Heuristic rules have no word links. For lexical weights and for formats with links, each target word of a rule is linked
to the source word that most probably translates to it, if any pair links these words.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exports.exporting import ExportPlan, score, write_rules
from hierogram.daemon.exports.filters import apply_filters, read_sentence_index
from hierogram.daemon.exports.formats import FORMATS, is_nonterminal, symbols, word
from hierogram.daemon.exports.lexicon import load_lexical_weights, load_lexicon
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.scratch import Scratch, open_scratch
from hierogram.daemon.files import Compression
from hierogram.samplers.grammar.rules import escape_terminal
from hierogram.storage.exports.snapshot import Block
from hierogram.storage.store import Store
from hierogram.tools.lab.comparison.bitexts import Bitexts, Numbering
from hierogram.tools.lab.comparison.extraction import MASS_UNIT, HeuristicGrammar, read_sources, rule_lines
from hierogram.tools.lab.comparison.pruning import Pruning, hash_rows, select_rules

UNITS = 10_000
"""Counts are stored as integers in units of 1/`UNITS`."""

_SHAPE = ("scope", "nonterminals", "source_terminals", "target_terminals")
_COUNTS = {"uses": "BIGINT", "seen": "BIGINT"}
_COLUMN_TYPES = {"source": "VARCHAR", "target": "VARCHAR", **dict.fromkeys(_SHAPE, "INTEGER"), **_COUNTS}
_MEMORY = 1 << 30
_NO_WORD = "\x01"
"""Word that cannot occur in sentences, because corpora have no control characters."""
_GAP = re.compile(r"\[X,[1-9]\]\Z")


def export_heuristic(
    store: Store,
    path: Path,
    options: ExportOptions,
    *,
    singletons: bool = True,
    pruning: Pruning | None = None,
) -> tuple[int, list[int]]:
    """Write the heuristic grammar of a store's pairs to a new file, with glue rules in a second file.

    Without `singletons`, rules that occur once and have more than one source word are omitted. `pruning` selects rules.
    All export filters apply except filters on alignments. Returns the number of rules written, and the number of rules
    by scope 0, 1, … before the export filters. Raises `ExtractionError`.
    """
    format = FORMATS[options.format or "cdec"]
    compression = Compression.GZIP if path.suffix == ".gz" else Compression.NONE
    plan = ExportPlan(options, format, compression, units_per_use=UNITS, seen="seen")
    with store.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        source, target = (Numbering(sorted(dict(snapshot.word_counts(side)))) for side in ("source", "target"))
        with HeuristicGrammar() as grammar, open_scratch(Path(folder), _MEMORY) as rules:
            grammar.add(Bitexts(snapshot, source, target))
            test_set = None if options.filter_for is None else read_sentence_index(options.filter_for)
            words = None if test_set is None else {symbol for symbols in test_set.sentences for symbol in symbols}
            chosen = None if pruning is None else select_rules(grammar, pruning)
            rule_blocks = _RuleBlocks(grammar, source, target, singletons, words, chosen)
            rules.load("loaded", _COLUMN_TYPES, rule_blocks.blocks())
            rules.load("loaded", _COLUMN_TYPES, rule_blocks.others())
            # Exports expect rules with ids.
            rules.run("""
                CREATE VIEW rules AS
                SELECT rowid AS id, source, target, '' AS alignment,
                       0 AS minimal_uses, * EXCLUDE (source, target)
                  FROM loaded""")
            apply_filters(rules, plan, test_set)
            if not plan.format.fixed:
                load_lexicon(rules, snapshot.pair_blocks())
                _link(rules)
                load_lexical_weights(rules)
            score(rules, plan)
            glue = path.with_name(f"{path.name}.glue")
            number, _ = write_rules(rules, plan, path, glue, lambda _: None)
            return number, rule_blocks.by_scope.tolist()


def _link(rules: Scratch) -> None:
    """Link each target word of the kept rules to the source word that most probably translates to it."""

    def select_words(side: str) -> str:
        return f"""
            SELECT id, place, {word("symbol")} AS word FROM (
                SELECT id, unnest({symbols(side)}) AS symbol, unnest(range(len({symbols(side)}))) AS place FROM chosen
            ) WHERE NOT {is_nonterminal("symbol")}"""

    rules.run("CREATE TABLE chosen AS SELECT * FROM kept")
    rules.run(f"""
        CREATE TABLE likeliest AS
        SELECT id, string_agg(i || '-' || j, ' ' ORDER BY i, j) AS alignment FROM (
            SELECT s.id, s.place AS i, t.place AS j
              FROM ({select_words("source")}) AS s JOIN ({select_words("target")}) AS t USING (id)
              JOIN lexicon ON lexicon.f = s.word AND lexicon.e = t.word
            QUALIFY row_number() OVER (PARTITION BY s.id, t.place ORDER BY e_given_f DESC, s.place) = 1
        ) GROUP BY id""")
    rules.run("DROP VIEW kept")
    rules.run("""
        CREATE TABLE kept AS
        SELECT chosen.* REPLACE (coalesce(likeliest.alignment, '') AS alignment)
          FROM chosen LEFT JOIN likeliest USING (id)""")
    rules.run("DROP TABLE chosen")


class _RuleBlocks:
    """Blocks of the selected rules of a heuristic grammar.

    With a test set, `blocks` omits rules that have a source word outside the test set. So that probabilities are
    normalized over all selected rules, `others` yields dummy rules, which cannot match, with the summed counts of the
    omitted rules: one for each target side that a kept rule shares with omitted rules, and one for all other omitted
    rules. `by_scope` also counts omitted rules.
    """

    def __init__(
        self,
        grammar: HeuristicGrammar,
        source: Numbering,
        target: Numbering,
        singletons: bool,
        words: set[str] | None,
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        self._grammar = grammar
        self._source = source
        self._target = target
        self._singletons = singletons
        self._chosen = chosen
        self._known = None if words is None else np.array([escape_terminal(word) in words for word in source], np.bool_)
        self.by_scope: NDArray[np.int64] = np.zeros(1, np.int64)
        self._hashes: list[NDArray[np.uint64]] = []
        self._uses: list[NDArray[np.int64]] = []
        self._seen: list[NDArray[np.int64]] = []
        self._kept: dict[int, tuple[str, int, int]] = {}

    def blocks(self) -> Iterator[Block]:
        done = 0
        shape = self._grammar.shape
        for block in self._grammar.blocks():
            sides, scopes, words = read_sources(block, shape)
            chosen = np.ones(len(block), np.bool_)
            if self._chosen is not None:
                chosen &= self._chosen[done : done + len(block)]
            if not self._singletons:
                chosen &= (block[:, shape.occurrences] > 1) | (words <= 1)
            rules_by_scope = np.bincount(scopes[chosen], minlength=len(self.by_scope))
            rules_by_scope[: len(self.by_scope)] += self.by_scope
            self.by_scope = rules_by_scope
            mass = block[:, shape.mass].astype(np.float64) * UNITS / MASS_UNIT
            uses = np.maximum(np.rint(mass), 1).astype(np.int64)
            seen = np.minimum(np.maximum(np.rint(mass / block[:, shape.occurrences]), 1).astype(np.int64), uses)
            hashes = hash_rows(block[:, shape.source_width : shape.symbol_width])
            if self._known is not None:
                self._hashes.append(hashes[chosen])
                self._uses.append(uses[chosen])
                self._seen.append(seen[chosen])
                chosen &= _all_known(sides.symbols, sides.starts, self._known)
            done += len(block)
            if chosen.any():
                yield done, self._columns(block[chosen], scopes[chosen], uses[chosen], seen[chosen], hashes[chosen])

    def _columns(
        self,
        rows: NDArray[np.uint64],
        scopes: NDArray[np.int32],
        uses: NDArray[np.int64],
        seen: NDArray[np.int64],
        hashes: NDArray[np.uint64],
    ) -> list[str]:
        lines = rule_lines(rows, self._grammar.shape, self._source.spellings, self._target.spellings)
        sides = [line.split(" ||| ") for line in lines.decode().splitlines()]
        pairs = [(side[0].split(" "), side[1].split(" ")) for side in sides]
        gaps = [sum(bool(_GAP.match(symbol)) for symbol in pair[0]) for pair in pairs]
        if self._known is not None:
            for side, rule_hash, used, once in zip(sides, hashes.tolist(), uses.tolist(), seen.tolist(), strict=True):
                before = self._kept.get(rule_hash, ("", 0, 0))
                self._kept[rule_hash] = (side[1], before[1] + used, before[2] + once)
        columns = [
            [side[0] for side in sides],
            [side[1] for side in sides],
            scopes.tolist(),
            gaps,
            [len(pair[0]) - number for pair, number in zip(pairs, gaps, strict=True)],
            [len(pair[1]) - number for pair, number in zip(pairs, gaps, strict=True)],
            uses.tolist(),
            seen.tolist(),
        ]
        return ["\n".join(map(str, column)) for column in columns]

    def others(self) -> Iterator[Block]:
        """Yield dummy rules with the counts of omitted rules, after `blocks`."""
        if not self._kept:
            return
        hashes, rows_by_hash = np.unique(np.concatenate(self._hashes), return_inverse=True)
        totals = np.zeros((2, len(hashes)), np.int64)
        for total, parts in zip(totals, (self._uses, self._seen), strict=True):
            np.add.at(total, rows_by_hash, np.concatenate(parts))
        kept_rows = np.searchsorted(hashes, np.array(list(self._kept), np.uint64))
        remaining = [
            (target, int(total) - used, int(all_seen) - seen)
            for (target, used, seen), total, all_seen in zip(self._kept.values(), *totals[:, kept_rows], strict=True)
            if total > used
        ]
        kept_totals = np.array([(used, seen) for _, used, seen in self._kept.values()], np.int64).sum(axis=0)
        uses, seen = (
            totals.sum(axis=1)
            - kept_totals
            - np.array([entry[1:] for entry in remaining], np.int64).reshape(-1, 2).sum(axis=0)
        )
        if uses > 0:
            remaining.append((_NO_WORD, int(uses), int(seen)))
        size = len(remaining)
        numbers = "\n".join(["0"] * size)
        texts = ["\n".join([_NO_WORD] * size), "\n".join(target for target, *_ in remaining)]
        if size:
            counts = ["\n".join(str(entry[column]) for entry in remaining) for column in (1, 2)]
            yield size, [*texts, *([numbers] * len(_SHAPE)), *counts]


def _all_known(symbols: NDArray[np.int32], starts: NDArray[np.int64], is_known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    unknown = np.zeros(len(symbols) + 1, np.int64)
    words = symbols >= 0
    unknown[1:][words] = ~is_known[symbols[words]]
    sums = np.cumsum(unknown)
    return np.asarray(sums[starts[1:]] == sums[starts[:-1]], np.bool_)
