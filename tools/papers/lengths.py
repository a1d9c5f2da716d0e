"""The weight of target words by which a grammar translates as long as the references are."""

from collections.abc import Sequence

from hierogram.daemon.decoding.grammars import TranslationGrammar
from hierogram.daemon.decoding.opening import Equipment
from hierogram.tools.papers.splitting import HeldOut

WORDS = "words"
_TRIALS = 8


def fitted_words(equipment: Equipment, grammar: TranslationGrammar, held: HeldOut, threads: int) -> float:
    """The weight of words, between 0 and twice what it is, by which translations have the words of the references.

    Of several references the one whose length is closest counts. All other weights stay.
    """

    def missing(weight: float) -> int:
        """By how many words translations are too short under this weight."""
        translator = equipment.translator(grammar, {**equipment.weights, WORDS: weight})
        lengths = [len(found.text.split()) for found in translator.translate_all(held.sources, threads=threads)]
        return _words_of_references(lengths, held.references) - sum(lengths)

    start = equipment.weights[WORDS]
    low, high = min(0.0, 2 * start), max(0.0, 2 * start)
    middle = start
    for _ in range(_TRIALS):
        short = missing(middle)
        if not short:
            break
        low, high = (middle, high) if short > 0 else (low, middle)
        middle = (low + high) / 2
    return middle


def _words_of_references(lengths: Sequence[int], references: Sequence[Sequence[str]]) -> int:
    sizes = [[len(line.split()) for line in own] for own in references]
    return sum(min(own, key=lambda size: abs(size - n)) for n, own in zip(lengths, sizes, strict=True))
