"""A regular bitext, and heuristic grammars of small pairs, for comparisons."""

from pathlib import Path

import numpy as np
from tests.reference.examples import RandomPair
from tests.reference.rules import Rule
from tests.samplers.synchronous.kernel_chain import number_words, to_bitext

from hierogram.samplers.counts.texts import spellings
from hierogram.samplers.grammar import rules as notation
from hierogram.tools.lab.comparison.extraction import (
    MASS_UNIT,
    ExtractionLimits,
    RulePosition,
    empty_buffer,
    extract,
    make_buffer,
    make_scratch,
    merge_rows,
    merge_runs,
    row_shape,
    rule_lines,
)

PATTERNS = [
    ("la {a} {n}", "the {n} {a}", "0-0 1-2 2-1"),
    ("la {a}", "the {a}", "0-0 1-1"),
    ("{a} ne vient pas", "{a} does not come", "0-0 1-1 2-3 3-2"),
    ("je vois la {a} {n}", "i see the {n} {a}", "0-0 1-1 2-2 3-4 4-3"),
]


def write_bitext(folder: Path) -> list[str]:
    """Write 240 regular pairs, which every grammar learns. Returns the files of sources, targets and links."""
    lines = [[part.format(a=f"w{k % 11}", n=f"v{k % 7}") for part in PATTERNS[k % len(PATTERNS)]] for k in range(240)]
    for name, column in zip(("s", "t", "a"), zip(*lines, strict=True), strict=True):
        (folder / name).write_text("".join(line + "\n" for line in column))
    return [str(folder / name) for name in ("s", "t", "a")]


Extracted = dict[Rule, tuple[int, float]]
"""Number of occurrences and mass of each rule."""


def extract_runs(pairs: list[RandomPair], limits: ExtractionLimits, capacity: int) -> list[np.ndarray]:
    """Return the sorted rows of each full buffer of `capacity` rules, and of the last buffer."""
    bitext = to_bitext(pairs)
    buffer, scratch = make_buffer(limits, capacity), make_scratch(bitext, limits)
    position, runs = RulePosition(), []
    while position.pair < len(pairs):
        position = extract(bitext, limits, buffer, scratch, position)
        runs.append(merge_rows(buffer.used_rows, row_shape(limits)))
        empty_buffer(buffer)
    return runs


def merged(runs: list[np.ndarray], limits: ExtractionLimits, rules_per_block: int = 1 << 16) -> np.ndarray:
    """Return the distinct rules of sorted runs as rows."""
    shape = row_shape(limits)
    return np.concatenate([np.empty((0, shape.width), np.uint64), *merge_runs(runs, shape, rules_per_block)])


def format_rules(rows: np.ndarray, pairs: list[RandomPair], limits: ExtractionLimits) -> list[str]:
    """Return the rule lines of rows that were extracted from the pairs."""
    sides = [list(number_words([pair[k] for pair in pairs])) for k in (0, 1)]
    return rule_lines(rows, row_shape(limits), spellings(sides[0]), spellings(sides[1])).decode().splitlines()


def extracted(rows: np.ndarray, pairs: list[RandomPair], limits: ExtractionLimits) -> Extracted:
    """Return the occurrences and masses of rows that were extracted from the pairs. Fails if a rule repeats."""
    shape = row_shape(limits)
    counts: Extracted = {}
    for row, line in zip(rows, format_rules(rows, pairs, limits), strict=True):
        source, target, _ = line.split(" ||| ")
        rule = Rule(notation.parse_side(source), notation.parse_side(target))
        assert rule not in counts
        counts[rule] = (int(row[shape.occurrences]), int(row[shape.mass]) / MASS_UNIT)
    return counts
