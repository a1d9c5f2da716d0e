"""Sentences that a comparison keeps from the learner: every k-th pair of a bitext, or a text of its own."""

from collections.abc import Iterator
from dataclasses import replace

from hierogram.daemon.corpora.inputs import Source
from hierogram.daemon.corpora.lines import open_lines
from hierogram.daemon.corpora.texts import Languages
from hierogram.daemon.corpora.validation import Fields


def sentence(line: bytes) -> str:
    """A line's tokens, separated by one space; bytes that are not UTF-8 make a word that nothing covers."""
    return " ".join(token for token in line.decode(errors="replace").replace("\t", " ").split(" ") if token)


def read_sentences(path: str) -> list[str]:
    """The sentences of a file that are not empty; raises `InputError` where it cannot be read."""
    with open_lines(path) as file:
        return [text for lines in file.chunks() for line in lines if (text := sentence(line))]


class HoldingOut:
    """An input without every `every`-th line, whose source sides are kept in `held_out` (0: nothing is held out)."""

    def __init__(self, source: Source, every: int) -> None:
        self._source = source
        self._every = every
        self.held_out: list[str] = []

    @property
    def origin(self) -> str:
        """The input's name."""
        return self._source.origin

    @property
    def format(self) -> str:
        """The input's format."""
        return self._source.format

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Bytes in all; None where that is not known."""
        return self._source.bytes_total

    def choose(self, languages: Languages | None) -> None:
        """See `Source.choose`."""
        self._source.choose(languages)

    @property
    def fields(self) -> Iterator[Fields]:
        """The lines that are not held out."""
        for fields in self._source.fields:
            yield self._without_held_out(fields) if self._every else fields

    def _without_held_out(self, fields: Fields) -> Fields:
        kept = [k for k, number in enumerate(fields.numbers) if number % self._every]
        out = set(range(len(fields.numbers))).difference(kept)
        self.held_out += [text for k in sorted(out) if (text := sentence(fields.sources[k]))]
        return replace(
            fields,
            numbers=[fields.numbers[k] for k in kept],
            sources=[fields.sources[k] for k in kept],
            targets=[fields.targets[k] for k in kept],
            alignments=[fields.alignments[k] for k in kept],
            ids=[fields.ids[k] for k in kept],
            lines=None if fields.lines is None else [fields.lines[k] for k in kept],
        )
