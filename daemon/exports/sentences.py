"""cdec's grammars by sentence: for each sentence of a test set the rules that can match it, and a list of them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from hierogram.daemon.exports.compression import CompressedFile
from hierogram.daemon.exports.formats.cdec import CDEC
from hierogram.daemon.exports.formats.format import Chosen, Compression
from hierogram.daemon.exports.manifest import ExportedFile
from hierogram.daemon.exports.tables.matching import TestSet
from hierogram.daemon.exports.tables.scratch import Scratch

LIST = "sentences.sgm"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder that grammars are written to, the one that it will be, how files are made, and their ending."""

    written: Path
    final: Path
    compress: Callable[[Path], CompressedFile]
    ending: str


def write_sentences(scratch: Scratch, features: Chosen, test_set: TestSet, folder: Folder) -> list[ExportedFile]:
    """Writes a grammar for each sentence of the test set, and the list of them, which comes first in the result.

    They are called `grammar.N` and the ending of the compression, for sentence N. The list has the form that cdec takes
    as input: `<seg id="N" grammar="…/grammar.N.gz"> words </seg>`.
    """
    assert CDEC.line is not None
    sentences = test_set.texts
    files: dict[int, ExportedFile] = {}

    def put(number: int, lines: list[str]) -> None:
        with folder.compress(folder.written / f"grammar.{number}{folder.ending}") as file:
            file.write("".join(line + "\n" for line in lines).encode())
        files[number] = ExportedFile(file.path.name, file.bytes, file.sha256)

    query = f"""
        SELECT sentence, line FROM (
            SELECT sentence, source, target, {CDEC.line(features)} AS line FROM scored JOIN matching USING (source)
        ) ORDER BY sentence, source, target"""
    rows = (row for block in scratch.columns(query) for row in block)
    for number, of_sentence in groupby(rows, key=itemgetter(0)):
        put(int(str(number)), [str(line) for _, line in of_sentence])
    for number in range(len(sentences)):
        if number not in files:
            put(number, [])
    listing = "".join(
        f'<seg id="{number}" grammar="{folder.final / files[number].name}"> {sentence} </seg>\n'
        for number, sentence in enumerate(sentences)
    )
    with CompressedFile(folder.written / LIST, Compression.NONE) as file:
        file.write(listing.encode())
    return [ExportedFile(LIST, file.bytes, file.sha256), *(files[number] for number in range(len(sentences)))]
