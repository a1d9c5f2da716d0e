"""Measure how many words of reference translations evidence shows within a budget of characters.

Of a store that has not seen the sentences; beside it, with --pairs, what fragmentshot (PyPI) finds in the same pairs.
Words are tokens of the target side with a letter or a digit, each once a sentence, without case.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

import typer

from hierogram.daemon.text.lines import read_sentences
from hierogram.daemon.text.texts import TextSide, pipeline_of
from hierogram.storage.browsing.reader import Reader
from hierogram.tools.evidence.budget import within
from hierogram.tools.evidence.gathering import gather
from hierogram.tools.evidence.options import MOST_PAIRS, MOST_RULES, EvidenceOptions

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
            texts = pipeline_of(look.settings())
            tokens = texts.running().source.tokens(sentence)
            found = within(gather(look, tokens, wanted), characters, texts)
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


def main(
    store: Annotated[str, typer.Argument(help="A store that has learned.")],
    source: Annotated[str, typer.Argument(help="Sentences that it has not seen.")],
    target: Annotated[str, typer.Argument(help="Their translations.")],
    characters: Annotated[int, typer.Option(help="Most characters of evidence.")] = 300,
    most: Annotated[int, typer.Option("--sentences", help="Sentences, the first ones.")] = 200,
    pairs: Annotated[tuple[str, str] | None, typer.Option(help="The store's pairs, for fragmentshot: SRC TGT.")] = None,
) -> None:
    """Print recall and precision of the references' words, of a store and of fragmentshot."""
    sentences = list(zip(read_sentences(source), read_sentences(target), strict=True))[:most]
    with Reader(store) as reader:
        with reader.look() as look:
            side = pipeline_of(look.settings()).running().target
        shows = {"hierogram": of_store(reader, characters)}
        if pairs:
            shows["fragmentshot"] = of_fragmentshot(pairs, characters)
        for name, show in shows.items():
            recall, precision, spent = measure(show, side, sentences)
            print(f"{name}: recall {recall:.3f}, precision {precision:.3f}, {spent:.0f} characters a sentence")


if __name__ == "__main__":
    typer.run(main)
