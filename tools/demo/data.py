"""Demo corpus: the Greek New Testament and the Berean Standard Bible, with manual word alignments.

`NOTICE` lists the sources, their licenses, and the changes made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import zstandard

CREDITS = (
    "Greek New Testament (SBLGNT, CC BY 4.0), Berean Standard Bible (public domain), "
    "word alignments by Biblica (CC BY 4.0)"
)
_FILE = "new_testament.tsv.zst"


@dataclass(frozen=True, slots=True)
class VersePair:
    """Verse in both languages: name (`JHN 1:1`), words, and links as pairs of positions from 0."""

    name: str
    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]

    def as_input(self, with_links: bool = True) -> dict[str, object]:
        """Return the verse as a mapping for `GrammarStore.add`."""
        pair: dict[str, object] = {"id": self.name, "source": " ".join(self.source), "target": " ".join(self.target)}
        return pair | ({"alignment": self.links} if with_links else {})


def read_verses() -> Iterator[VersePair]:
    """Yield the verse pairs of the bundled corpus, from Matthew to Revelation."""
    content = zstandard.ZstdDecompressor().decompress(files(__package__).joinpath(_FILE).read_bytes())
    for line in content.decode().rstrip("\n").split("\n"):
        name, source, target, alignment = line.split("\t")
        links = [(int(i), int(j)) for i, j in (link.split("-") for link in alignment.split())]
        yield VersePair(name, source.split(" "), target.split(" "), links)
