"""Heuristic grammars as files, in any format of exports, so that decoders can use them like any other.

Their counts are those of Chiang (2007): every initial phrase has a mass of 1, which its rules share. Extraction keeps
no links inside rules. For lexical weights each target word is linked to the source word of the rule that it is
likeliest to translate, where the pairs link the two at all.
"""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hierogram.daemon.exports.compression import CompressedFile
from hierogram.daemon.exports.filters import apply_filters
from hierogram.daemon.exports.formats.format import Compression, Format
from hierogram.daemon.exports.formats.registry import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.tables.lexicon import load_lexicon, weigh
from hierogram.daemon.exports.tables.loading import Counted
from hierogram.daemon.exports.tables.notation import is_nonterminal, symbols, word
from hierogram.daemon.exports.tables.numbers import MACROS
from hierogram.daemon.exports.tables.scratch import Scratch, scratch
from hierogram.daemon.exports.writing import Place, Wanted, Written, score, write_scored
from hierogram.samplers.extraction.extraction import MASS_UNIT, Limits
from hierogram.samplers.extraction.runs import read_sources, rule_lines
from hierogram.storage.exports.blocks import Block
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.store import Store
from hierogram.tools.comparison.bitexts import Bitexts
from hierogram.tools.comparison.heuristic_grammar import HeuristicGrammar
from hierogram.tools.comparison.numbering import Numbering

UNITS = 10_000
"""Counts are whole numbers of such parts."""

_SHAPE = ("scope", "nonterminals", "source_terminals", "target_terminals")
_KINDS = {"source": "VARCHAR", "target": "VARCHAR", **dict.fromkeys(_SHAPE, "INTEGER"), "uses": "BIGINT"}
_MEMORY = 1 << 30
_GAP = re.compile(r"\[X,[1-9]\]\Z")


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Which heuristic rules: all, or without those seen once whose source side has more than one word."""

    singletons: bool = True
    limits: Limits = field(default_factory=Limits)
    threads: int = 2


@dataclass(frozen=True, slots=True)
class HeuristicFile:
    """What was written, and how many rules the whole grammar has of scope 0, 1, …"""

    written: Written
    by_scope: list[int]


def export_heuristic(store: Store, path: Path, options: ExportOptions, heuristic: Heuristic) -> HeuristicFile:
    """Write the heuristic grammar of a store's pairs to a new file, and the format's glue rules beside it.

    Filters are those of exports; the alignment is not among them. Raises `ExtractionError`.
    """
    format = FORMATS[options.format or "cdec"]
    wanted = Wanted(options.resolved(), format, Counted(), UNITS)
    with store.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        source, target = (Numbering(snapshot.words(side)) for side in ("source", "target"))
        with HeuristicGrammar(heuristic.limits, heuristic.threads) as grammar, scratch(Path(folder), _MEMORY) as rules:
            grammar.add(Bitexts(snapshot, source, target))
            _load(rules, grammar, (source, target), heuristic.singletons)
            scopes = rules.columns("SELECT scope, count(*) FROM rules GROUP BY scope")
            counts = {scope: number for rows in scopes for scope, number in rows}
            by_scope = [counts.get(scope, 0) for scope in range(max(counts, default=-1) + 1)]
            return HeuristicFile(_write(rules, snapshot, wanted, path, format), by_scope)


def _write(rules: Scratch, snapshot: Snapshot, wanted: Wanted, path: Path, format: Format) -> Written:
    apply_filters(rules, wanted.options, UNITS)
    if wanted.lexical or format.alignments:
        load_lexicon(rules, snapshot.pair_blocks())
        _link(rules)
        weigh(rules, "kept")
    for macro in MACROS:
        rules.run(macro)
    score(rules, wanted)
    glue = path.with_name(f"{path.name}.glue")
    compression = Compression.GZIP if path.suffix == ".gz" else Compression.NONE
    return write_scored(rules, wanted, Place(path, glue, lambda to: CompressedFile(to, compression)), lambda _: None)


def _load(rules: Scratch, grammar: HeuristicGrammar, numberings: tuple[Numbering, Numbering], singletons: bool) -> None:
    """Make the view `rules`, as exports have it."""
    rules.load("loaded", _KINDS, _blocks(grammar, numberings, singletons))
    rules.run("""
        CREATE VIEW rules AS
        SELECT rowid AS id, coalesce(source, '') AS source, coalesce(target, '') AS target, '' AS alignment,
               * EXCLUDE (source, target)
          FROM loaded""")


def _link(rules: Scratch) -> None:
    """Give the rules that are kept links: of each target word to the source word that it is likeliest to translate."""

    def placed(side: str) -> str:
        return f"""
            SELECT id, place, {word("symbol")} AS word FROM (
                SELECT id, unnest({symbols(side)}) AS symbol, unnest(range(len({symbols(side)}))) AS place FROM chosen
            ) WHERE NOT {is_nonterminal("symbol")}"""

    rules.run("CREATE TABLE chosen AS SELECT * FROM kept")
    rules.run(f"""
        CREATE TABLE likeliest AS
        SELECT id, string_agg(i || '-' || j, ' ' ORDER BY i, j) AS alignment FROM (
            SELECT s.id, s.place AS i, t.place AS j
              FROM ({placed("source")}) AS s JOIN ({placed("target")}) AS t USING (id)
              JOIN lexicon ON lexicon.f = s.word AND lexicon.e = t.word
            QUALIFY row_number() OVER (PARTITION BY s.id, t.place ORDER BY e_given_f DESC, s.place) = 1
        ) GROUP BY id""")
    rules.run("DROP VIEW kept")
    rules.run("""
        CREATE TABLE kept AS
        SELECT chosen.* REPLACE (coalesce(likeliest.alignment, '') AS alignment)
          FROM chosen LEFT JOIN likeliest USING (id)""")
    rules.run("DROP TABLE chosen")


def _blocks(grammar: HeuristicGrammar, numberings: tuple[Numbering, Numbering], singletons: bool) -> Iterator[Block]:
    """The rules; columns of the shape, as filters look at them."""
    shape = grammar.shape
    source, target = numberings
    done = 0
    for block in grammar.blocks():
        rows = block
        if not singletons:
            _, _, words = read_sources(block, shape)
            rows = block[(block[:, shape.occurrences] > 1) | (words <= 1)]
        if not len(rows):
            continue
        _, scopes, _ = read_sources(rows, shape)
        lines = rule_lines(rows, shape, source.spellings, target.spellings).decode().splitlines()
        sides = [line.split(" ||| ") for line in lines]
        uses = np.maximum(np.rint(rows[:, shape.mass].astype(np.float64) * UNITS / MASS_UNIT), 1).astype(np.int64)
        symbols_of = [(side[0].split(" "), side[1].split(" ")) for side in sides]
        gaps = [sum(bool(_GAP.match(symbol)) for symbol in source_side) for source_side, _ in symbols_of]
        columns = [
            [side[0] for side in sides],
            [side[1] for side in sides],
            scopes.tolist(),
            gaps,
            [len(pair[0]) - number for pair, number in zip(symbols_of, gaps, strict=True)],
            [len(pair[1]) - number for pair, number in zip(symbols_of, gaps, strict=True)],
            uses.tolist(),
        ]
        done += len(rows)
        yield done, ["\n".join(map(str, column)) for column in columns]
