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
from hierogram.tools.lab.comparison.extraction import MASS_UNIT, HeuristicGrammar, SourceSides, read_sources, rule_lines
from hierogram.tools.lab.comparison.pruning import Pruning, hash_rows, select_rules

UNITS_PER_USE = 10_000
"""Counts of uses are stored as integers in units of 1/`UNITS_PER_USE` use."""

_SHAPE = ("scope", "nonterminals", "source_terminals", "target_terminals")
_COUNTS = {"uses": "BIGINT", "seen": "BIGINT"}
"""Counts of a rule: its mass, and its mean mass per occurrence, which smoothing discounts."""
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
    """Write the heuristic grammar of the store's pairs with derivations to a new file.

    Glue rules are written to `PATH.glue`. The file is compressed if its suffix is `.gz`. Without `singletons`, rules
    that occur once and have more than one source word are omitted. `pruning` selects rules; by default, all are
    selected. All export filters apply except filters on alignments. Returns the number of rules written, and the number
    of selected rules of scope 0, 1, … before the export filters. Raises `ExtractionError`.
    """
    format = FORMATS[options.format or "cdec"]
    compression = Compression.GZIP if path.suffix == ".gz" else Compression.NONE
    plan = ExportPlan(options, format, compression, units_per_use=UNITS_PER_USE, seen="seen")
    with store.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        source, target = (Numbering(sorted(dict(snapshot.word_counts(side)))) for side in ("source", "target"))
        with HeuristicGrammar() as grammar, open_scratch(Path(folder), _MEMORY) as rules:
            grammar.add(Bitexts(snapshot, source, target))
            test_set = None if options.filter_for is None else read_sentence_index(options.filter_for)
            words = None if test_set is None else {symbol for symbols in test_set.sentences for symbol in symbols}
            is_selected = None if pruning is None else select_rules(grammar, pruning)
            rule_blocks = _RuleBlocks(grammar, source, target, singletons, words, is_selected)
            rules.load("loaded", _COLUMN_TYPES, rule_blocks.rules())
            rules.load("loaded", _COLUMN_TYPES, rule_blocks.dummy_rules())
            # Exports expect rules with ids.
            rules.run("""
                CREATE VIEW rules AS
                SELECT rowid AS id, source, target, '' AS alignment,
                       0 AS minimal_uses, * EXCLUDE (source, target)
                  FROM loaded""")
            apply_filters(rules, plan, test_set)
            if not plan.format.fixed:
                load_lexicon(rules, snapshot.pair_blocks())
                _link_words(rules)
                load_lexical_weights(rules)
            score(rules, plan)
            glue = path.with_name(f"{path.name}.glue")
            number, _ = write_rules(rules, plan, path, glue, lambda _: None)
            return number, rule_blocks.by_scope


def _link_words(rules: Scratch) -> None:
    """Replace the view `kept` by a table in which each target word has its most probable link."""

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

    First iterate over `rules`, then over `dummy_rules`. With a test set, `rules` omits rules that have a source word
    outside the test set, because they cannot match. So that probabilities are normalized over all selected rules,
    `dummy_rules` then yields rules that cannot match either, with the summed counts of the omitted rules: one for each
    target side that a kept rule shares with omitted rules, and one for all other omitted rules.
    """

    def __init__(
        self,
        grammar: HeuristicGrammar,
        source: Numbering,
        target: Numbering,
        singletons: bool,
        test_words: set[str] | None,
        is_selected: NDArray[np.bool_] | None = None,
    ) -> None:
        """`is_selected` bool[n] is for the n rules of `grammar` in order, or None to select all rules."""
        self._grammar = grammar
        self._source = source
        self._target = target
        self._singletons = singletons
        self._is_selected = is_selected
        self._is_test_word = (
            None if test_words is None else np.array([escape_terminal(word) in test_words for word in source], np.bool_)
        )
        self._by_scope: NDArray[np.int64] = np.zeros(1, np.int64)
        # With a test set: hashes of target sides, uses and seen uses of all selected rules, in blocks.
        self._target_hashes: list[NDArray[np.uint64]] = []
        self._uses: list[NDArray[np.int64]] = []
        self._seen: list[NDArray[np.int64]] = []
        # With a test set: text, uses and seen uses of each target side, summed over kept rules, by hash.
        self._kept: dict[int, tuple[str, int, int]] = {}

    @property
    def by_scope(self) -> list[int]:
        """Number of selected rules of scope 0, 1, … that `rules` has read so far, including omitted rules."""
        scopes: list[int] = self._by_scope.tolist()
        return scopes

    def rules(self) -> Iterator[Block]:
        """Yield the selected rules, except rules with source words outside the test set."""
        done = 0
        shape = self._grammar.shape
        for block in self._grammar.blocks():
            sides, scopes, words = read_sources(block, shape)
            chosen = np.ones(len(block), np.bool_)
            if self._is_selected is not None:
                chosen &= self._is_selected[done : done + len(block)]
            if not self._singletons:
                chosen &= (block[:, shape.occurrences] > 1) | (words <= 1)
            rules_by_scope = np.bincount(scopes[chosen], minlength=len(self._by_scope))
            rules_by_scope[: len(self._by_scope)] += self._by_scope
            self._by_scope = rules_by_scope
            mass = block[:, shape.mass].astype(np.float64) * UNITS_PER_USE / MASS_UNIT
            uses = np.maximum(np.rint(mass), 1).astype(np.int64)
            seen = np.minimum(np.maximum(np.rint(mass / block[:, shape.occurrences]), 1).astype(np.int64), uses)
            target_hashes = hash_rows(block[:, shape.source_width : shape.symbol_width])
            if self._is_test_word is not None:
                self._target_hashes.append(target_hashes[chosen])
                self._uses.append(uses[chosen])
                self._seen.append(seen[chosen])
                chosen &= _all_test_words(sides, self._is_test_word)
            done += len(block)
            if chosen.any():
                columns = self._columns(
                    block[chosen], scopes[chosen], uses[chosen], seen[chosen], target_hashes[chosen]
                )
                yield done, columns

    def _columns(
        self,
        rows: NDArray[np.uint64],
        scopes: NDArray[np.int32],
        uses: NDArray[np.int64],
        seen: NDArray[np.int64],
        target_hashes: NDArray[np.uint64],
    ) -> list[str]:
        """Return the columns of `_COLUMN_TYPES`. With a test set, add the counts to `_kept`."""
        lines = rule_lines(rows, self._grammar.shape, self._source.spellings, self._target.spellings)
        sources, targets, _ = zip(*(line.split(" ||| ") for line in lines.decode().splitlines()), strict=True)
        if self._is_test_word is not None:
            counts = zip(targets, target_hashes.tolist(), uses.tolist(), seen.tolist(), strict=True)
            for target, target_hash, rule_uses, rule_seen in counts:
                _, uses_before, seen_before = self._kept.get(target_hash, ("", 0, 0))
                self._kept[target_hash] = (target, uses_before + rule_uses, seen_before + rule_seen)
        source_symbols, target_symbols = ([side.split(" ") for side in texts] for texts in (sources, targets))
        gaps = [sum(bool(_GAP.match(symbol)) for symbol in symbols) for symbols in source_symbols]
        columns = [
            sources,
            targets,
            scopes.tolist(),
            gaps,
            [len(symbols) - number for symbols, number in zip(source_symbols, gaps, strict=True)],
            [len(symbols) - number for symbols, number in zip(target_symbols, gaps, strict=True)],
            uses.tolist(),
            seen.tolist(),
        ]
        return ["\n".join(map(str, column)) for column in columns]

    def dummy_rules(self) -> Iterator[Block]:
        """Yield one block of dummy rules, or none if no rule was omitted or `rules` yielded none."""
        if not self._kept:
            return
        hashes, rows_by_hash = np.unique(np.concatenate(self._target_hashes), return_inverse=True)
        totals = np.zeros((2, len(hashes)), np.int64)
        for total, parts in zip(totals, (self._uses, self._seen), strict=True):
            np.add.at(total, rows_by_hash, np.concatenate(parts))
        kept_rows = np.searchsorted(hashes, np.array(list(self._kept), np.uint64))
        dummies = [
            (target, int(all_uses) - kept_uses, int(all_seen) - kept_seen)
            for (target, kept_uses, kept_seen), all_uses, all_seen in zip(
                self._kept.values(), *totals[:, kept_rows], strict=True
            )
            if all_uses > kept_uses
        ]
        kept_totals = np.array([counts for _, *counts in self._kept.values()], np.int64).sum(axis=0)
        dummy_totals = np.array([counts for _, *counts in dummies], np.int64).reshape(-1, 2).sum(axis=0)
        other_uses, other_seen = (totals.sum(axis=1) - kept_totals - dummy_totals).tolist()
        if other_uses > 0:
            dummies.append((_NO_WORD, other_uses, other_seen))
        if dummies:
            targets, uses, seen = ("\n".join(map(str, column)) for column in zip(*dummies, strict=True))
            size = len(dummies)
            zeros = ["\n".join(["0"] * size)] * len(_SHAPE)
            yield size, ["\n".join([_NO_WORD] * size), targets, *zeros, uses, seen]


def _all_test_words(sides: SourceSides, is_test_word: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True for source sides with only words of the test set, bool[n]."""
    is_other = np.zeros(len(sides.symbols) + 1, np.int64)
    is_word = sides.symbols >= 0
    is_other[1:][is_word] = ~is_test_word[sides.symbols[is_word]]
    sums = np.cumsum(is_other)
    return np.asarray(sums[sides.starts[1:]] == sums[sides.starts[:-1]], np.bool_)
