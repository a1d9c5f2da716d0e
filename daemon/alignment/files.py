"""Files of sentences to align, and of alignments: lines in, Pharaoh lines out, compressed or not."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hierogram.daemon.compressing import written
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.corpora.lines import MAX_LINE_BYTES, open_lines
from hierogram.daemon.exceptions import InputError, UsageError

_LINES_A_WRITE = 8192


def numbered_lines(path: str) -> Iterator[tuple[str, int, bytes]]:
    """The lines of a file (or `-`), decompressed: the file's name, the line's number from 1, the line.

    Raises `InputError` where the file cannot be read or a line is longer than `MAX_LINE_BYTES`.
    """
    with open_lines(path) as file:
        number = 0
        for chunk in file.chunks():
            for line in chunk:
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(f"{file.name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes: divide it")
                yield file.name, number, line


def read_sentences(path: str) -> list[str]:
    """The lines of a file (or `-`) as text; raises `InputError` where one is not UTF-8."""
    sentences = []
    for name, number, line in numbered_lines(path):
        try:
            sentences.append(line.decode())
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}: line {number}: byte {error.start + 1} is not UTF-8 ({error.reason}): convert the file first"
            ) from error
    return sentences


def read_pairs(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Source and target sentences of two files, line for line, or of one file of pairs in a format that ingest knows.

    What a file of pairs says of links is passed over. Raises `UsageError` where there are more files, `InputError`
    where the files have different numbers of lines, or a line is not a pair.
    """
    if len(paths) == 2:
        sources, targets = read_sentences(paths[0]), read_sentences(paths[1])
        if len(sources) != len(targets):
            raise InputError(
                f"{paths[0]} has {len(sources):,} line{'s' * (len(sources) != 1)}, {paths[1]} {len(targets):,} "
                f"line{'s' * (len(targets) != 1)}: "
                "a sentence and its translation must stand on the same line"
            )
        return sources, targets
    if len(paths) != 1:
        raise UsageError(f"{len(paths)} files given: name two, SRC TGT, or one of `source ||| target` lines")
    sources, targets = [], []
    with Input(paths) as pairs:
        for fields in pairs.fields:
            for wrong in fields.rejected[:1]:
                raise InputError(f"{pairs.origin}: line {wrong.line}: {wrong.message}")
            try:
                sources += [side.decode() for side in fields.sources]
                targets += [side.decode() for side in fields.targets]
            except UnicodeDecodeError as error:
                raise InputError(f"{pairs.origin}: is not UTF-8 ({error.reason}): convert the file first") from error
    return sources, targets


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file, compressed if its name ends in .gz or .zst; it appears when it is whole.

    Raises `ExportError`.
    """
    with written(path) as stream:
        buffered: list[str] = []
        for line in lines:
            buffered.append(line)
            if len(buffered) == _LINES_A_WRITE:
                stream.write(_encoded(buffered))
                buffered.clear()
        stream.write(_encoded(buffered))


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join([line + "\n" for line in lines]).encode()
