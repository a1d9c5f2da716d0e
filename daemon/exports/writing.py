"""From the scratch database to files: probabilities, lexical weights, and the lines of a format."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.exports.compression import CompressedFile
from hierogram.daemon.exports.formats.format import Chosen, Format
from hierogram.daemon.exports.formats.tables import columns
from hierogram.daemon.exports.manifest import ExportedFile
from hierogram.daemon.exports.options import ExportOptions, Marginals
from hierogram.daemon.exports.sentences import write_sentences
from hierogram.daemon.exports.tables.lexicon import load_lexicon, weigh
from hierogram.daemon.exports.tables.loading import corpus_id
from hierogram.daemon.exports.tables.numbers import MACROS
from hierogram.daemon.exports.tables.scratch import Heard, Scratch, quoted
from hierogram.storage.exports.snapshot import Snapshot

_ROW_GROUP = 122_880


@dataclass(frozen=True, slots=True)
class Written:
    """How many rules were written, and the files, that of the rules first."""

    rules: int
    files: list[ExportedFile]


def write_rules(
    scratch: Scratch,
    snapshot: Snapshot,
    options: ExportOptions,
    format: Format,
    samples: int,
    path: Path,
    glue: Path,
    compress: Callable[[Path], CompressedFile],
    heard: Heard,
    final: Path | None = None,
) -> Written:
    """Writes the rules of the view `kept` to `path`, and the format's glue rules, if it has any, to `glue`.

    With `final` it is grammars by sentence that are written, into the folder of `path`, which will have that name.
    """
    features = format.chosen(options.features)
    prepare(scratch, snapshot, options, format, features, samples)
    if final is not None:
        assert options.filter_for is not None
        rules = scratch.row("SELECT count(*) FROM scored")[0]
        return Written(rules, write_sentences(scratch, features, options.filter_for, path.parent, final, compress))
    if format.line is None:
        written = _write_table(scratch, features, format, path)
    else:
        written = _write_lines(scratch, features, format, compress(path), heard)
    files = [written[1]]
    if format.glue is not None:
        with compress(glue) as file:
            file.write("".join(line + "\n" for line in format.glue(features)).encode())
        files.append(ExportedFile(glue.name, file.bytes, file.sha256))
    return Written(written[0], files)


def prepare(
    scratch: Scratch, snapshot: Snapshot, options: ExportOptions, format: Format, features: Chosen, samples: int
) -> None:
    """Makes the view `scored` of the rules kept, and what it needs."""
    lexical = any(feature.lexical for feature in features)
    if lexical:
        corpus = None if options.corpus is None else corpus_id(snapshot, options.corpus)
        load_lexicon(scratch, snapshot.pair_blocks(corpus))
        weigh(scratch, "kept")
    for macro in MACROS:
        scratch.run(macro)
    score(scratch, options, samples, format, features, lexical)


def score(
    scratch: Scratch, options: ExportOptions, samples: int, format: Format, features: Chosen, lexical: bool
) -> None:
    """Makes the view `scored`: the rules kept, with their counts, sums and features."""
    among = "rules" if options.marginals is Marginals.BEFORE else "kept"
    for side in ("source", "target"):
        scratch.run(f"""
            CREATE TABLE of_{side} AS
            SELECT {side}, CAST(sum(uses) AS BIGINT) AS {side}_sum FROM {among} GROUP BY {side}""")
    shape = "".join(f", {name}" for name in format.shape)
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
        query = f"SELECT {line} FROM (SELECT * FROM scored ORDER BY {format.order})"
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
    rules = scratch.row(f"SELECT count(*) FROM read_parquet({quoted(str(path))})")[0]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return rules, ExportedFile(path.name, path.stat().st_size, digest)
