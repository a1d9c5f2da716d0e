"""Comparison of heuristic and sampled grammars of a store: sizes, and coverage of held-out sentences."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.exports.filters import ADJACENT
from hierogram.daemon.exports.loading import load_pair_uses
from hierogram.daemon.exports.options import MIN_EXPECTED
from hierogram.daemon.exports.scratch import load_rules, open_scratch
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.pipeline import Languages
from hierogram.daemon.text.validation import LineColumns
from hierogram.samplers.grammar.kinds import LINKS, find_grammar_kind
from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.pairs import UNALIGNED, WAITING
from hierogram.storage.store import Store
from hierogram.tools.lab.comparison.bitexts import Bitexts, Numbering, SymbolNumbering
from hierogram.tools.lab.comparison.extraction import HeuristicGrammar, read_sources
from hierogram.tools.lab.comparison.measuring import GrammarFigures, GrammarMeasure, TextNgrams, count_ngrams


def decode_tokens(line: bytes) -> str:
    """Return a line's tokens joined by single spaces. Invalid bytes become U+FFFD, which no rule covers."""
    return " ".join(token for token in line.decode(errors="replace").replace("\t", " ").split(" ") if token)


_COLUMNS = ("line_numbers", "sources", "targets", "alignments", "external_ids", "lines")
"""Fields of `LineColumns` with one value for each line."""


class HeldOutInput(PairFiles):
    """Input files without every `every`-th line, whose nonempty source sides are added to `held_out`."""

    def __init__(self, paths: Sequence[str], every: int) -> None:
        super().__init__(paths)
        self._every = every
        self.held_out: list[str] = []

    def line_chunks(self, languages: Languages | None = None) -> Iterator[LineColumns]:
        """Yield chunks of the lines that are not held out."""
        for fields in super().line_chunks(languages):
            training_lines = [k for k, number in enumerate(fields.line_numbers) if number % self._every]
            omitted = set(range(len(fields.line_numbers))).difference(training_lines)
            self.held_out += [text for k in sorted(omitted) if (text := decode_tokens(fields.sources[k]))]
            columns = {name: getattr(fields, name) for name in _COLUMNS}
            columns = {name: column and [column[k] for k in training_lines] for name, column in columns.items()}
            yield replace(fields, **columns)


MAX_NGRAM_LENGTH = 4
_SAMPLED = (
    ("single sample", CountKind.CURRENT_SAMPLE),
    ("posterior means", CountKind.POSTERIOR_MEAN),
    ("translation grammar", CountKind.TRANSLATION),
)
ADMITTED = f"""
    nonterminals <= {HIERO_MAX_NONTERMINALS} AND NOT regexp_matches(source, '{ADJACENT}')
    AND source_terminals + nonterminals <= {HIERO_MAX_SOURCE_SYMBOLS}
    AND source_terminals > 0 AND target_terminals > 0"""
"""SQL condition for rules that meet the constraints of [Chiang 2007]."""

Report = Callable[[str, int, int | None], None]
"""Progress callback: `(activity, pairs or rules done, total or None)`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of grammars, Hiero's first, with the numbers of pairs, words and held-out sentences."""

    pairs: int
    source_words: int
    target_words: int
    max_scope: int
    held_out: int
    grammars: list[GrammarFigures]


def compare(
    store: Store,
    held_out: Sequence[str] = (),
    *,
    max_scope: int = 2,
    threads: int = 2,
    report: Report = lambda _work, _done, _total: None,
) -> Comparison:
    """Compare a store's sampled grammars with heuristic grammars of its pairs. Raises `DaemonError`.

    `held_out` are tokenized source sentences. Only pairs with derivations and rules up to `max_scope` count.
    """
    grammar_kind = find_grammar_kind(store.settings().grammar)
    if LINKS not in grammar_kind.capabilities:
        raise UsageError(f"{store.url}: {grammar_kind.cannot('be compared: its rules have no heuristic grammar')}")
    with store.snapshot() as snapshot:
        learned = snapshot.state().pairs()
        total = sum(learned.values()) - learned.get(WAITING, 0) - learned.get(UNALIGNED, 0)
        if not total and learned.get(UNALIGNED, 0):
            raise InputError(f"{store.url}: the pairs have no alignment yet: run `hierogram --store {store.url} learn`")
        if not total:
            raise UsageError(f"{store.url}: no pair has a derivation yet: run `hierogram --store {store.url} learn`")
        source, target = (Numbering(sorted(dict(snapshot.word_counts(side)))) for side in ("source", "target"))
        sides = SymbolNumbering(source)
        ngrams = count_ngrams(*source.number_words(held_out), MAX_NGRAM_LENGTH) if held_out else None
        bitexts = Bitexts(snapshot, source, target)
        with HeuristicGrammar(threads=threads) as grammar:
            grammar.add(bitexts, lambda done: report("extract", done, total))
            heuristic = _measure_heuristic(grammar, max_scope, ngrams, report)
        hiero = heuristic[0].figures()
        rows = [hiero, *(measure.figures(hiero.rules) for measure in heuristic[1:])]
        for name, count_kind in _SAMPLED:
            measures = _measure_sampled(snapshot, sides, name, count_kind, max_scope, ngrams, report)
            rows += [measure.figures(hiero.rules) for measure in measures]
    return Comparison(total, bitexts.source_words, bitexts.target_words, max_scope, len(held_out), rows)


def _measure_heuristic(
    grammar: HeuristicGrammar, max_scope: int, ngrams: TextNgrams | None, report: Report
) -> list[GrammarMeasure]:
    """Measure Hiero's grammar, with and without singletons of more than one source word [CFGŠ14 §5.4.1]."""
    shape = grammar.shape
    measures = [GrammarMeasure(name, max_scope, ngrams) for name in ("Hiero", "no singletons")]
    done = 0
    for block in grammar.blocks():
        _, _, words = read_sources(block, shape)
        not_singletons = block[(block[:, shape.occurrences] > 1) | (words <= 1)]
        for measure, rows in zip(measures, (block, not_singletons), strict=True):
            _, scopes, _ = read_sources(rows, shape)
            rows = rows[measure.count(scopes)]
            # Rules with the same source side are adjacent. Mark the n-grams of a source side only once.
            is_new_source = np.ones(len(rows), np.bool_)
            is_new_source[1:] = (rows[1:, : shape.source_width] != rows[:-1, : shape.source_width]).any(axis=1)
            (symbols, starts), _, _ = read_sources(rows[is_new_source], shape)
            measure.cover(symbols, starts)
        done += len(block)
        report("heuristic rules", done, None)
    return measures


def _measure_sampled(
    snapshot: Snapshot,
    words: SymbolNumbering,
    name: str,
    count_kind: CountKind,
    max_scope: int,
    ngrams: TextNgrams | None,
    report: Report,
) -> list[GrammarMeasure]:
    """Measure a sampled grammar, and its rules that meet Hiero's constraints."""
    measures = [GrammarMeasure(grammar, max_scope, ngrams) for grammar in (name, f"{name}, Hiero's constraints")]
    done = 0
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder, open_scratch(Path(folder)) as database:
        load_rules(database, snapshot, count_kind)
        if count_kind is CountKind.TRANSLATION:
            load_pair_uses(database, snapshot, None, count_kind, MIN_EXPECTED, linked=False)
        for block in database.row_blocks(f"SELECT source, scope, {ADMITTED} FROM rules"):
            for measure, rules in zip(measures, (block, [rule for rule in block if rule[-1]]), strict=True):
                within = measure.count(np.array([scope for _, scope, _ in rules], np.int32))
                measure.cover(*words.number_words({rules[k][0] for k in np.flatnonzero(within)}))
            done += len(block)
            report(f"rules of {name}", done, None)
    return measures
