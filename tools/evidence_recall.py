"""Measure how many words of reference translations evidence shows within a budget of characters.

Of a store that has not seen the sentences; beside it, with --pairs, what fragmentshot (PyPI) finds in the same pairs.
Words are tokens of the target side with a letter or a digit, each once a sentence, without case.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence

from hierogram.daemon.corpora.lines import read_sentences
from hierogram.daemon.corpora.texts import TextSide, pipeline_of
from hierogram.daemon.evidence.budget import within
from hierogram.daemon.evidence.gathering import gather
from hierogram.daemon.evidence.options import MOST_PAIRS, MOST_RULES, EvidenceOptions
from hierogram.storage.browsing.reader import Reader

Shown = tuple[str, int]
"""Text of the target side, and how many characters were spent."""


def words(side: TextSide, text: str) -> set[str]:
    """Return the words of a text."""
    return {word for word in side.tokens(text).lower().split() if any(map(str.isalnum, word))}


def of_store(reader: Reader, characters: int) -> Callable[[str], Shown]:
    """Return what shows evidence of a store."""
    wanted = EvidenceOptions(pairs=MOST_PAIRS, rules=MOST_RULES, renderings=5, tokenized=True)

    def show(sentence: str) -> Shown:
        with reader.look() as look:
            tokens = pipeline_of(look.settings()).running().source.tokens(sentence)
            found = within(gather(look, tokens, wanted), characters)
        # A line holds its target side behind =, or alone behind a tab.
        targets = [
            line.partition(" = ")[2].replace(",", " ") or line
            for line in found.split("\n")
            if "=" in line or line.startswith("\t")
        ]
        return " ".join(targets), len(found)

    return show


def of_fragmentshot(pairs: Sequence[str], characters: int) -> Callable[[str], Shown]:
    """Return what shows examples of fragmentshot, as many in their order as there is room for."""
    from fragmentshot import FragmentShotRetriever

    retriever = FragmentShotRetriever(*(read_sentences(path) for path in pairs))

    def examples(sentence: str) -> Iterator[tuple[str, str]]:
        for shot in retriever.search(sentence, num_shots=8).shots:
            for example in shot.examples:
                yield example.src, example.tgt

    def show(sentence: str) -> Shown:
        taken: list[str] = []
        spent = 0
        for source, target in dict.fromkeys(examples(sentence)):
            if spent + len(source) + len(target) + 2 <= characters:
                spent += len(source) + len(target) + 2
                taken.append(target)
        return " ".join(taken), spent

    return show


def measure(
    show: Callable[[str], Shown], side: TextSide, sentences: Iterable[tuple[str, str]]
) -> tuple[float, float, float]:
    """Return recall and precision of the references' words, and characters a sentence."""
    right = wanted = shown = spent = count = 0
    for sentence, reference in sentences:
        text, characters = show(sentence)
        has, should = words(side, text), words(side, reference)
        right += len(has & should)
        wanted += len(should)
        shown += len(has)
        spent += characters
        count += 1
    return right / max(1, wanted), right / max(1, shown), spent / max(1, count)


def main() -> None:
    """Print a line for the store, and one for fragmentshot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", help="a store that has learned")
    parser.add_argument("source", help="sentences that it has not seen")
    parser.add_argument("target", help="their translations")
    parser.add_argument("--characters", type=int, default=300)
    parser.add_argument("--sentences", type=int, default=200, help="the first ones, at most")
    parser.add_argument("--pairs", nargs=2, metavar=("SRC", "TGT"), help="the store's pairs, for fragmentshot")
    given = parser.parse_args()
    sentences = list(zip(read_sentences(given.source), read_sentences(given.target), strict=True))[: given.sentences]
    with Reader(given.store) as reader:
        with reader.look() as look:
            side = pipeline_of(look.settings()).running().target
        shows = {"hierogram": of_store(reader, given.characters)}
        if given.pairs:
            shows["fragmentshot"] = of_fragmentshot(given.pairs, given.characters)
        for name, show in shows.items():
            recall, precision, spent = measure(show, side, sentences)
            print(f"{name}: recall {recall:.3f}, precision {precision:.3f}, {spent:.0f} characters a sentence")


if __name__ == "__main__":
    main()
