"""Filters of exported rules, and an index of the sentences of a test set."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.publication import FilterCount
from hierogram.daemon.exports.scratch import Scratch
from hierogram.daemon.text.pipeline import TOKENS, TextSide
from hierogram.samplers.grammar.rules import (
    HIERO_MAX_NONTERMINALS,
    HIERO_MAX_SOURCE_SYMBOLS,
    NONTERMINAL,
    escape_terminal,
)

if TYPE_CHECKING:
    from hierogram.daemon.exports.exporting import ExportPlan

_MAX_INDEXED_WORDS = 3
"""Maximum length of indexed word runs. Longer runs are found by their first words, then compared."""

_GAPS = re.compile(rf"((?:(?:^| ){NONTERMINAL}(?= |$))+)")

HIERO_MAX_SPAN = 10
"""Maximum number of words on each side of an initial phrase [Chiang 2007]."""
UNICODE_SPACES = r"[\t-\r\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
"""Regular expression of the characters, other than the space, at which `str.split` splits text."""

ADJACENT = rf"(^| ){NONTERMINAL} {NONTERMINAL}( |$)"
"""Regular expression of adjacent nonterminals in a rule side."""

Run = tuple[str, ...]
Starts = dict[int, list[int]]
"""Start positions of a word run, by sentence number."""


class SentenceIndex:
    """Sentences indexed by their n-grams of up to three words."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences: list[list[str]] = [
            [escape_terminal(word) for word in sentence.split()] for sentence in sentences
        ]
        self._starts: dict[Run, Starts] = {}
        for number, words in enumerate(self.sentences):
            for start in range(len(words)):
                for size in range(1, min(_MAX_INDEXED_WORDS, len(words) - start) + 1):
                    run = tuple(words[start : start + size])
                    self._starts.setdefault(run, {}).setdefault(number, []).append(start)

    def matches(self, side: str) -> Iterator[int]:
        """Yield the numbers, from 0, of the sentences with a span that matches a source side."""
        runs, gaps = _split_runs(side)
        if not runs:
            yield from (number for number, words in enumerate(self.sentences) if gaps[0] <= len(words))
            return
        starts_by_run = [self._find(run) for run in runs]
        for number in min(starts_by_run, key=len):
            starts = [positions[number] for positions in starts_by_run if number in positions]
            if len(starts) == len(runs) and _fits(starts, runs, gaps, len(self.sentences[number])):
                yield number

    def _find(self, run: Run) -> Starts:
        starts = self._starts.get(run[:_MAX_INDEXED_WORDS], {})
        if len(run) <= _MAX_INDEXED_WORDS:
            return starts
        found: Starts = {}
        for number, positions in starts.items():
            words = self.sentences[number]
            if longer := [start for start in positions if tuple(words[start : start + len(run)]) == run]:
                found[number] = longer
        return found


def _split_runs(side: str) -> tuple[list[Run], list[int]]:
    """Split a side into word runs, and count the nonterminals before, between and after them."""
    parts = _GAPS.split(side)
    runs, gaps = parts[::2], [part.count("[X,") for part in parts[1::2]]
    # `split` omits the empty gap before a first word and after a last word, so add both.
    gaps = [0] * bool(runs[0]) + gaps + [0] * bool(runs[-1])
    return [tuple(run.split()) for run in runs if run], gaps or [0]


def _fits(starts: Sequence[Sequence[int]], runs: Sequence[Run], gaps: Sequence[int], length: int) -> bool:
    """Check if the runs occur in order, with at least one word for each nonterminal around them.

    `gaps` counts the nonterminals before each run and after the last run. `length` is the number of words of the
    sentence. Each run is matched as far left as possible.
    """
    end = 0
    for number, (run, run_starts) in enumerate(zip(runs, starts, strict=True)):
        index = bisect_left(run_starts, end + gaps[number])
        if index == len(run_starts):
            return False
        end = run_starts[index] + len(run)
    return end + gaps[-1] <= length


def read_sentence_index(path: Path, side: TextSide = TOKENS) -> SentenceIndex:
    """Index the sentences of a file with one sentence per line, tokenized by `side`. Raises `ExportError`."""
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
        return SentenceIndex([side.tokens(line) for line in lines])
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"{path}: cannot be read as a test set with one sentence per line: {error}") from error


def _rule_filters(plan: "ExportPlan", linked: bool) -> Iterator[tuple[str, str]]:
    """Yield name and SQL condition of the filters that test one rule at a time."""
    options = plan.options
    if plan.format.word_list:
        yield "no Unicode spaces in words", f"NOT regexp_matches(source || target, '{UNICODE_SPACES}')"
    if plan.nonempty_sides:
        yield "no empty side", "source <> '' AND target <> ''"
    if options.min_count > 0:
        yield f"count ≥ {options.min_count:g}", f"uses >= {options.min_count!r} * {plan.units_per_use}"
    if options.max_scope is not None:
        yield f"scope ≤ {options.max_scope}", f"scope <= {options.max_scope}"
    if not options.hiero:
        return
    yield f"nonterminals ≤ {HIERO_MAX_NONTERMINALS}", f"nonterminals <= {HIERO_MAX_NONTERMINALS}"
    adjacent = f"nonterminals > 1 AND contains(source, '] [X') AND regexp_matches(source, '{ADJACENT}')"
    yield "no adjacent source nonterminals", f"NOT ({adjacent})"
    symbols = f"source_terminals + nonterminals <= {HIERO_MAX_SOURCE_SYMBOLS}"
    yield f"source symbols ≤ {HIERO_MAX_SOURCE_SYMBOLS}", symbols
    if linked:
        yield "aligned words", "alignment <> ''"
    else:
        yield "words on both sides (no rule has links)", "least(source_terminals, target_terminals) > 0"
    spanned = f"greatest(source_terminals, target_terminals) + nonterminals <= {HIERO_MAX_SPAN}"
    yield f"span ≤ {HIERO_MAX_SPAN} (by the length of the sides)", spanned


def apply_filters(scratch: Scratch, plan: "ExportPlan", test_set: SentenceIndex | None = None) -> list[FilterCount]:
    """Create the view `kept` of rules that pass all filters. Returns counts before and after each filter."""
    options, counts_by_filter, candidates = plan.options, [], "rules"
    if test_set is not None:
        sides = (
            [source for (source,) in rows if next(test_set.matches(source), None) is not None]
            for rows in scratch.row_blocks("SELECT DISTINCT source FROM rules")
        )
        blocks = ((len(matching), ["\n".join(matching)]) for matching in sides if matching)
        scratch.load("matching", {"source": "VARCHAR"}, blocks)
        candidates = "rules SEMI JOIN matching USING (source)"
        assert options.filter_for is not None
        [before] = scratch.row("SELECT count(*) FROM rules")
        [after] = scratch.row(f"SELECT count(*) FROM {candidates}")
        counts_by_filter.append(FilterCount(f"matches a sentence of {options.filter_for.name}", before, after))
    linked = options.hiero and scratch.row("SELECT count(*) FROM rules WHERE alignment <> ''")[0] > 0
    rule_filters = dict(_rule_filters(plan, linked))
    conditions = list(rule_filters.values())
    # Count the rules that meet the first 0, 1, 2, … conditions in one query, because each query reads all rules.
    columns = (f"count(*) FILTER (WHERE {' AND '.join(conditions[:k])})" for k in range(1, len(conditions) + 1))
    counts = scratch.row(f"SELECT {', '.join(['count(*)', *columns])} FROM {candidates}")
    counts_by_filter += [FilterCount(name, counts[k], counts[k + 1]) for k, name in enumerate(rule_filters)]
    where = " AND ".join(conditions) or "true"
    if options.per_source is None:
        scratch.run(f"CREATE VIEW kept AS SELECT rules.* FROM {candidates} WHERE {where}")
        return counts_by_filter
    scratch.run(f"""
        CREATE TABLE best AS
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY source ORDER BY uses DESC, target) AS rank
              FROM {candidates} WHERE {where}
        ) WHERE rank <= {options.per_source}""")
    scratch.run("CREATE VIEW kept AS SELECT rules.* FROM rules SEMI JOIN best USING (id)")
    best = scratch.row("SELECT count(*) FROM best")[0]
    counts_by_filter.append(FilterCount(f"best {options.per_source} per source side", counts[-1], best))
    return counts_by_filter
