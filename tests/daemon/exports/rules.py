"""Rules with odd words and links, and their export through a scratch database."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from hierogram.daemon.exports.exporting import resolve_plan, score, write_rules
from hierogram.daemon.exports.filters import apply_filters, read_sentence_index
from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.lexicon import load_lexical_weights, load_lexicon
from hierogram.daemon.exports.loading import LINKED_COLUMNS, link_rules
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import ExportedFile, FilterCount
from hierogram.daemon.exports.scratch import load_rules, open_scratch
from hierogram.daemon.files import Compression
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.rules import Rule, parse_side
from hierogram.storage.exports.snapshot import Block, Snapshot
from hierogram.storage.records.grammar import CountKind


class Given(NamedTuple):
    source: str
    target: str
    uses: int = 1
    alignment: str = ""
    minimal: int = 0


PAIRS = [
    ("a b c", "x y z", "0-0 1-2"),
    ("a b", "y x", "0-1 1-0"),
    ("a a c", "x x", "0-0 0-1 1-1"),
    ("[laughs] | d", "ha [X] ||| d", "0-0 0-1 1-2 2-3"),
    ("[X,1] \\q", "\\ e", "0-0"),
    ("[X3,1]", "[X3,1]", "0-0"),
]
ODD = [
    Given("a [X,1] b", "x [X,1] y", 3, "0-0 2-2", 2),
    Given("a [X,1] b", "[X,1] x", 1, "0-1"),
    Given("[X,1] [X,2]", "[X,2] [X,1]", 7),
    Given("[X,1] c [X,2]", "[X,2] z z [X,1] x", 2, "1-1 1-4"),
    Given("a", "x", 9, "0-0", 1),
    Given("a", "y", 1, "0-0"),
    Given("A", "X", 1),
    Given("[laughs]", "ha [X]", 2, "0-0 0-1"),
    Given("[laughs] [X,1] | d", "[X,1] ||| d", 1, "2-1 3-2"),
    Given("\\[X,1] [X,1] \\\\q", "\\\\ [X,1] e", 1, "0-0"),
    Given("é \U0001f600 \uff5e", '"q" {x} \'', 4),
    Given("a b", "x", 1000, "0-0 1-0"),
    Given("[X,1] c [X,2] [X,3]", "[X,2] z [X,3] [X,1]", 3, "1-1"),
    Given("[X3,1] c [X,1]", "z [X,1] [X3,1]", 2, "0-2"),
]
"""Rules that are easy to write wrongly: odd words, several nonterminals, no links, high counts."""


class Source:
    """Fake snapshot with the methods that an export calls."""

    def __init__(self, rules: Sequence[Given], pairs: Sequence[tuple[str, str, str]] = PAIRS) -> None:
        self.rules = rules
        self.pairs = pairs

    def rule_blocks(self, columns: Sequence[str], kind: CountKind = CountKind.CURRENT_SAMPLE) -> Iterator[Block]:
        for number, given in enumerate(self.rules, 1):
            rule = Rule(parse_side(given.source), parse_side(given.target))
            shape = [str(given.minimal if name == "minimal_uses" else getattr(rule, name)) for name in columns[2:]]
            yield number, [given.source, given.target, *shape, str(given.uses)]

    def pair_blocks(self, corpus_id: int | None = None) -> Iterator[Block]:
        yield len(self.pairs), ["\n".join(column) for column in zip(*self.pairs, strict=True)]

    def linked_blocks(self) -> Iterator[Block]:
        for number, given in enumerate(self.rules, 1):
            yield number, [given.source, given.target, given.alignment, str(given.uses), "0"]


def write(
    folder: Path, rules: Sequence[Given], options: ExportOptions, units_per_use: int = 1, name: str = "g",
    min_seen: float = 0,
) -> tuple[Path, tuple[int, list[ExportedFile]], list[FilterCount]]:  # fmt: skip
    folder.mkdir(exist_ok=True)
    named = FORMATS[options.format or "cdec"]
    plan = resolve_plan(
        options, next(grammar_kind for grammar_kind in GRAMMAR_KINDS.values() if named.supports(grammar_kind))
    )
    plan = replace(plan, units_per_use=units_per_use, compression=Compression.NONE)
    given = Source(rules)
    source = cast(Snapshot, given)
    work = folder / f"work-{name}"
    work.mkdir()
    with open_scratch(work) as database:
        load_rules(database, source, options.count_kind)
        database.load("aligned_uses", LINKED_COLUMNS, given.linked_blocks())
        link_rules(database)
        test_set = None if options.filter_for is None else read_sentence_index(options.filter_for)
        counts = apply_filters(database, plan, test_set)
        if plan.lexical:
            load_lexicon(database, given.pair_blocks())
            load_lexical_weights(database)
        score(database, plan, min_seen)
        written = write_rules(database, plan, folder / name, folder / f"{name}.glue", lambda done: None)
    return folder / name, written, counts
