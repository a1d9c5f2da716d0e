"""From the scratch database to files: probabilities, lexical weights, and the lines of a format."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.corpora.texts import pipeline_of
from hierogram.daemon.exports.compression import CompressedFile
from hierogram.daemon.exports.filters import read_test_set
from hierogram.daemon.exports.formats.features import Feature
from hierogram.daemon.exports.formats.format import Chosen, Format
from hierogram.daemon.exports.formats.tables import columns
from hierogram.daemon.exports.manifest import ExportedFile
from hierogram.daemon.exports.options import ExportOptions, Normalization
from hierogram.daemon.exports.sentences import Folder, write_sentences
from hierogram.daemon.exports.tables.lexicon import load_lexicon, weigh
from hierogram.daemon.exports.tables.loading import Counted
from hierogram.daemon.exports.tables.numbers import MACROS
from hierogram.daemon.exports.tables.scratch import Heard, Scratch, quoted
from hierogram.storage.exports.snapshot import Snapshot

_ROW_GROUP = 122_880


@dataclass(frozen=True, slots=True)
class Written:
    """How many rules were written, and the files, that of the rules first."""

    rules: int
    files: list[ExportedFile]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is written of the rules that are left: resolved options, format, what was counted, in how many samples."""

    options: ExportOptions
    format: Format
    counted: Counted
    samples: int = 1

    @property
    def features(self) -> list[Feature]:
        """The features that are written, in the format's order."""
        return self.format.chosen(self.options.features)

    @property
    def lexical(self) -> bool:
        """Whether lexical weights are among them."""
        return any(feature.lexical for feature in self.features)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rules go, and the format's glue rules, if it has any; how their files are made.

    With `final` it is grammars by sentence that are written, into the folder of `path`, which will have that name.
    """

    path: Path
    glue: Path
    compress: Callable[[Path], CompressedFile]
    final: Path | None = None


def write_rules(scratch: Scratch, snapshot: Snapshot, wanted: Wanted, place: Place, heard: Heard) -> Written:
    """Writes the rules of the view `kept`, and the format's glue rules."""
    prepare(scratch, snapshot, wanted)
    if place.final is not None:
        assert wanted.options.filter_for is not None
        folder = Folder(place.path.parent, place.final, place.compress, place.path.suffix)
        rules = scratch.row("SELECT count(*) FROM scored")[0]
        sentences = read_test_set(wanted.options.filter_for, pipeline_of(snapshot.settings()).source)
        return Written(rules, write_sentences(scratch, wanted.features, sentences, folder))
    return write_scored(scratch, wanted, place, heard)


def write_scored(scratch: Scratch, wanted: Wanted, place: Place, heard: Heard) -> Written:
    """Writes the rules of the view `scored`, and the format's glue rules."""
    features, format = wanted.features, wanted.format
    if format.line is None:
        written = _write_table(scratch, features, format, place.path)
    else:
        written = _write_lines(scratch, features, format, place.compress(place.path), heard)
    files = [written[1]]
    if format.glue is not None:
        with place.compress(place.glue) as file:
            file.write("".join(line + "\n" for line in format.glue(features)).encode())
        files.append(ExportedFile(place.glue.name, file.bytes, file.sha256))
    return Written(written[0], files)


def prepare(scratch: Scratch, snapshot: Snapshot, wanted: Wanted) -> None:
    """Makes the view `scored` of the rules kept, and what it needs."""
    if wanted.lexical:
        load_lexicon(scratch, snapshot.pair_blocks(wanted.counted.corpus))
        weigh(scratch, "kept")
    for macro in MACROS:
        scratch.run(macro)
    score(scratch, wanted)


def score(scratch: Scratch, wanted: Wanted) -> None:
    """Makes the view `scored`: the rules kept, with their counts, sums and features."""
    features, samples, lexical = wanted.features, wanted.samples, wanted.lexical
    among = "rules" if wanted.options.normalization is Normalization.BEFORE else "kept"
    for side in ("source", "target"):
        scratch.run(f"""
            CREATE TABLE of_{side} AS
            SELECT {side}, CAST(sum(uses) AS BIGINT) AS {side}_sum FROM {among} GROUP BY {side}""")
    shape = "".join(f", {name}" for name in wanted.format.shape)
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


def _write_lines(
    scratch: Scratch, features: Chosen, format: Format, compressed: CompressedFile, heard: Heard
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
    with compressed as file:
        if format.header is not None:
            file.write((format.header(features) + "\n").encode())
        for piece in scratch.lines(query):
            rules += piece.count(b"\n")
            file.write(piece)
            heard(rules)
    return rules, ExportedFile(file.path.name, file.bytes, file.sha256)


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
