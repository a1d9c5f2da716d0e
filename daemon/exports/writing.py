"""From the scratch database to files: probabilities, lexical weights, the lines of a format, cdec's by sentence."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from hierogram.daemon.compressing import CompressedFile, Compression, compressed
from hierogram.daemon.corpora.texts import TextSide, pipeline_of
from hierogram.daemon.exports.filters import apply_filters, read_test_set, shape_of
from hierogram.daemon.exports.formats.cdec import CDEC
from hierogram.daemon.exports.formats.format import Chosen, Feature, Format
from hierogram.daemon.exports.formats.notation import NUMBER_MACRO
from hierogram.daemon.exports.formats.tables import columns
from hierogram.daemon.exports.lexicon import load_lexicon, load_word_pairs, weigh
from hierogram.daemon.exports.options import ExportOptions, Normalization
from hierogram.daemon.exports.publication import ExportedFile, FilterCount
from hierogram.daemon.exports.rules import load_inner_alignments, load_rules
from hierogram.daemon.exports.scratch import Heard, Scratch, quoted
from hierogram.samplers.grammar.kinds import LINKS, notation_of
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import UNALIGNED

SENTENCES = "sentences.sgm"
_ROW_GROUP = 122_880

Report = Callable[[str, int, int | None], None]
"""Hears the work at hand (`read`, `count`, `align`, `write`), how much of it is done, and all of it, where known."""


@dataclass(frozen=True, slots=True)
class WrittenRules:
    """The number of rules that were written, and the files, that of the rules first."""

    rules: int
    files: list[ExportedFile]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """A grammar that is written: resolved options, format, compression, and what is counted, in units of 1/`samples`.

    That is the pairs of a corpus (its id; None: all pairs), by their expected uses if `sampled`, else as they are now.
    """

    options: ExportOptions
    format: Format
    compression: Compression = Compression.NONE
    corpus: int | None = None
    sampled: bool = False
    samples: int = 1

    @property
    def features(self) -> list[Feature]:
        """The features that are written, in the format's order."""
        return self.format.chosen(self.options.features)

    @property
    def lexical(self) -> bool:
        """Return whether lexical weights are among them."""
        return any(feature.lexical for feature in self.features)

    @property
    def ending(self) -> str:
        """The end of its files' names."""
        return self.format.suffix + self.compression.suffix


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Where the rules go, and the format's glue rules, if it has any; how their files are made.

    With `final` it is grammars by sentence that are written, into the folder of `path`, which will have that name.
    """

    path: Path
    glue: Path
    compress: Callable[[Path], AbstractContextManager[CompressedFile]]
    final: Path | None = None

    def put(self, path: Path, lines: Sequence[str]) -> ExportedFile:
        """Write lines to a file beside the rules."""
        with self.compress(path) as file:
            file.write("".join(line + "\n" for line in lines).encode())
        return ExportedFile(path.name, file.bytes, file.sha256)


def score_rules(
    scratch: Scratch, snapshot: Snapshot, plan: ExportPlan, report: Report = lambda *_: None
) -> tuple[list[FilterCount], int]:
    """Make the view `scored` of the store's rules that the plan's filters leave; returns what each left, and all.

    With a test set there is a table `matching` too (source, sentence). Raises `ExportError`.
    """
    settings, options = snapshot.settings(), plan.options
    states = snapshot.status().pairs.items()
    whole = plan.corpus is None
    pairs = sum(number for state, number in states if state != UNALIGNED) if whole else None
    if plan.format.words:
        blocks = snapshot.pair_blocks(plan.corpus)
        load_word_pairs(scratch, blocks, plan.samples, lambda done: report("count", done, pairs))
    else:
        shape = sorted(shape_of(options).union(plan.format.shape))
        rules = snapshot.count_rules(expected=plan.sampled) if whole else None
        what = "read" if whole else "count"
        load_rules(scratch, snapshot, plan.corpus, plan.sampled, shape, lambda done: report(what, done, rules))
        asked = plan.format.alignments or plan.lexical or options.aligned
        if asked and LINKS in notation_of(settings.grammar).offers:
            load_inner_alignments(
                scratch, snapshot, plan.corpus, plan.sampled, lambda done: report("align", done, pairs)
            )
    filters = apply_filters(scratch, options, plan.samples, pipeline_of(settings).source)
    left = filters[-1].after if filters else scratch.row("SELECT count(*) FROM rules")[0]
    if plan.lexical:
        load_lexicon(scratch, snapshot.pair_blocks(plan.corpus))
        weigh(scratch, "kept")
    score(scratch, plan)
    return filters, left


def score(scratch: Scratch, plan: ExportPlan) -> None:
    """Make the view `scored`: the rules kept, with their counts, sums and features."""
    scratch.run(NUMBER_MACRO)
    features, samples, lexical = plan.features, plan.samples, plan.lexical
    among = "rules" if plan.options.normalization is Normalization.BEFORE else "kept"
    for side in ("source", "target"):
        scratch.run(f"""
            CREATE TABLE of_{side} AS
            SELECT {side}, CAST(sum(uses) AS BIGINT) AS {side}_sum FROM {among} GROUP BY {side}""")
    shape = "".join(f", {name}" for name in plan.format.shape)
    scratch.stage("with_source", "SELECT * FROM kept JOIN of_source USING (source)", "of_source", "loaded")
    scratch.stage("with_sums", "SELECT * FROM with_source JOIN of_target USING (target)", "of_target", "with_source")
    if lexical:
        joined = "SELECT * FROM with_sums LEFT JOIN lexical USING (id)"
        scratch.stage("with_weights", joined, "lexical", "with_sums")
    joined = "with_weights" if lexical else "with_sums"
    values = "".join(
        f", {feature.value} AS {feature.name}"
        for feature in features
        if feature.name != "count" and not feature.lexical
    )
    lex = "".join(f", coalesce({feature.name}, 1.0) AS {feature.name}" for feature in features if feature.lexical)
    scratch.run(f"""
        CREATE VIEW scored AS
        SELECT *{values} FROM (
            SELECT source, target, alignment{shape}, CAST(uses AS DOUBLE) AS uses,
                   CAST(source_sum AS DOUBLE) AS source_uses, CAST(target_sum AS DOUBLE) AS target_uses,
                   CAST(uses AS DOUBLE) / {samples} AS count, CAST(source_sum AS DOUBLE) / {samples} AS source_count,
                   CAST(target_sum AS DOUBLE) / {samples} AS target_count{lex}
              FROM {joined}
        )""")


def write_rules(scratch: Scratch, plan: ExportPlan, output: OutputFiles, side: TextSide, heard: Heard) -> WrittenRules:
    """Write the rules of the view `scored`, and the format's glue rules; or grammars by sentence.

    Sentences of a test set go through `side`.
    """
    features, format = plan.features, plan.format
    if output.final is not None:
        assert plan.options.filter_for is not None
        rules = scratch.row("SELECT count(*) FROM scored")[0]
        sentences = read_test_set(plan.options.filter_for, side).texts
        return WrittenRules(rules, _write_sentences(scratch, features, sentences, output, output.final))
    if format.line is None:
        rules, file = _write_table(scratch, features, format, output.path)
    else:
        rules, file = _write_lines(scratch, features, format, output, heard)
    glue = [] if format.glue is None else [output.put(output.glue, format.glue(features))]
    return WrittenRules(rules, [file, *glue])


def _write_lines(
    scratch: Scratch, features: Chosen, format: Format, output: OutputFiles, heard: Heard
) -> tuple[int, ExportedFile]:
    assert format.line is not None
    line = f"{format.line(features)} AS line"
    if format.order == "line":
        query = f"SELECT line FROM (SELECT {line} FROM scored) ORDER BY line"
    else:
        # Lines are longer than what they are made of, so they are made when all is sorted.
        rows = format.rows or "scored"
        query = f"SELECT {line} FROM (SELECT * FROM {rows} ORDER BY {format.order})"
    rules = 0
    with output.compress(output.path) as file:
        if format.header is not None:
            file.write((format.header(features) + "\n").encode())
        for piece in scratch.lines(query):
            rules += piece.count(b"\n")
            file.write(piece)
            heard(rules)
    return rules, ExportedFile(output.path.name, file.bytes, file.sha256)


def _write_table(scratch: Scratch, features: Chosen, format: Format, path: Path) -> tuple[int, ExportedFile]:
    query = f"SELECT {', '.join(columns(features))} FROM scored ORDER BY {format.order}"
    # With several threads the rows of a group, and so its dictionaries, would depend on who comes first.
    scratch.run("SET threads = 1")
    scratch.run(
        f"COPY ({query}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
    )
    rules = scratch.row(f"SELECT count(*) FROM read_parquet({quoted(str(path))}, hive_partitioning=false)")[0]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return rules, ExportedFile(path.name, path.stat().st_size, digest)


def _write_sentences(
    scratch: Scratch, features: Chosen, sentences: Sequence[str], output: OutputFiles, final: Path
) -> list[ExportedFile]:
    """Write a grammar for each sentence of the test set, and the list of them, which comes first in the result.

    They are called `grammar.N` and the ending of the compression, for sentence N. The list has the form that cdec takes
    as input: `<seg id="N" grammar="…/grammar.N.gz"> words </seg>`.
    """
    assert CDEC.line is not None
    folder, ending = output.path.parent, output.path.suffix
    query = f"""
        SELECT sentence, line FROM (
            SELECT sentence, source, target, {CDEC.line(features)} AS line FROM scored JOIN matching USING (source)
        ) ORDER BY sentence, source, target"""
    rows = (row for block in scratch.columns(query) for row in block)
    files: dict[int, ExportedFile] = {}
    for number, of_sentence in groupby(rows, key=itemgetter(0)):
        files[number] = output.put(folder / f"grammar.{number}{ending}", [line for _, line in of_sentence])
    for number in range(len(sentences)):
        if number not in files:
            files[number] = output.put(folder / f"grammar.{number}{ending}", [])
    with compressed(folder / SENTENCES) as file:
        for number, sentence in enumerate(sentences):
            file.write(f'<seg id="{number}" grammar="{final / files[number].name}"> {sentence} </seg>\n'.encode())
    return [ExportedFile(SENTENCES, file.bytes, file.sha256), *(files[number] for number in range(len(sentences)))]
