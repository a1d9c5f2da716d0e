"""A pair's words with what each is linked to, so that a page can light them together."""

from typing import NamedTuple, Protocol


class Word(NamedTuple):
    """A word of a sentence: its key (`s3`, `t0`), the keys of those it is linked to, and whether it is marked."""

    text: str
    key: str
    partners: str
    marked: bool = False


class Sentences(NamedTuple):
    """Both sides of a pair."""

    source: list[Word]
    target: list[Word]


class Linked(Protocol):
    """A pair with texts and links."""

    @property
    def source(self) -> str:
        """Words, separated by one space."""

    @property
    def target(self) -> str:
        """Words, separated by one space."""

    @property
    def alignment(self) -> str:
        """Links, `i-j`."""


def links_of(alignment: str) -> list[tuple[int, int]]:
    """The links of a Pharaoh line."""
    return [(int(i), int(j)) for i, _, j in (link.partition("-") for link in alignment.split())]


def sentences(pair: Linked) -> Sentences:
    """The words of both sides; those of `source_words` and `target_words` are marked, where the pair has these."""
    of_source: dict[int, list[str]] = {}
    of_target: dict[int, list[str]] = {}
    for i, j in links_of(pair.alignment):
        of_source.setdefault(i, []).append(f"t{j}")
        of_target.setdefault(j, []).append(f"s{i}")
    marked_source = frozenset(getattr(pair, "source_words", ()))
    marked_target = frozenset(getattr(pair, "target_words", ()))
    return Sentences(
        [
            Word(word, f"s{n}", " ".join(of_source.get(n, ())), n in marked_source)
            for n, word in enumerate(pair.source.split(" "))
        ],
        [
            Word(word, f"t{n}", " ".join(of_target.get(n, ())), n in marked_target)
            for n, word in enumerate(pair.target.split(" "))
        ],
    )
