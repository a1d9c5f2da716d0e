"""Tune one set of feature weights for several stores, as candidates for the default weights.

    python -m hierogram.tools.lab.default_weights es-en.db en-es.db sw-en.db -o weights.toml

The command holds out pairs of each store, like `hierogram tune`, and uses the pairs with up to 25 source words. It
tunes only features with a default weight.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

import hierogram as hg
from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS
from hierogram.daemon.progress import progress
from hierogram.tools.translation.fixed_words import Words, split_words
from hierogram.tools.translation.grammars import toml_table
from hierogram.tools.translation.options import TranslateOptions, TuningOptions
from hierogram.tools.translation.resources import load_resources
from hierogram.tools.translation.tuning import NBest, tune
from hierogram.tools.translation.tuning_runs import GrammarDecoder, hold_out

_MAX_WORDS = 25
"""Maximum number of source words of a sentence, because long sentences take most of the time."""
_CANDIDATES = 100
"""Number of best translations of each sentence in a round."""


def tune_stores(urls: list[str], sentences: int, rounds: int) -> dict[str, float]:
    """Return weights by feature, tuned to BLEU on up to `sentences` held-out pairs of each store together."""
    decoders, references = list[GrammarDecoder](), list[list[Words]]()
    with ExitStack() as stack:
        bar = stack.enter_context(progress("tune", "sentences"))
        for url in urls:
            opened = stack.enter_context(hg.open(url))
            store, model, sources, targets = stack.enter_context(hold_out(opened.store, 3 * sentences, 1, bar))
            resources = load_resources(TranslateOptions(lm=model, tokenized=True))
            grammar = resources.read_store_grammar(store).grammar
            pairs = [pair for pair in zip(sources, targets, strict=True) if len(pair[0].split()) <= _MAX_WORDS]
            lines = [source for source, _ in pairs[:sentences]]
            decoder = GrammarDecoder(resources, grammar, lines, bar, _CANDIDATES, rounds + 1)
            decoders.append(decoder)
            references += [[decoder.tokens(split_words(target))] for _, target in pairs[:sentences]]
        names = decoders[0].names
        is_tuned = np.array([name in DEFAULT_WEIGHTS for name in names])

        def decode(weights: NDArray[np.float64]) -> Iterator[NBest]:
            for decoder in decoders:
                for candidates in decoder(weights):
                    yield NBest(candidates.words, candidates.features * is_tuned)

        start = decoders[0].start()
        tuned = tune(decode, references, start, TuningOptions(iterations=rounds), decoders[0].words_index)
    return {name: weight for name, weight in zip(names, tuned.weights.tolist(), strict=True) if name in DEFAULT_WEIGHTS}


def main(
    stores: Annotated[list[str], typer.Argument(help="Stores of pairs, SQLite.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="TOML file of the weights.")],
    sentences: Annotated[int, typer.Option(min=1, help="Number of held-out sentences of each store.")] = 70,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds after the first.")] = 7,
) -> None:
    """Tune weights for several stores, and write them."""
    weights = tune_stores(stores, sentences, rounds)
    output.write_text("\n".join(toml_table("[weights]", weights)))


if __name__ == "__main__":
    typer.run(main)
