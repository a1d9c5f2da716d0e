"""Commands that need no store: align, evaluate-alignment."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.commands.common import AsJson, interruptible, note, plural, say, say_json
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hierogram.samplers.alignment.bitext import Side
    from hierogram.samplers.alignment.prior_counts import PriorCounts

STANDARD_OUTPUT = "-"


@with_options
def align(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one a line; may be .gz or .zst.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Their translations, line for line.")],
    request: Request,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Alignments to write; .gz or .zst compresses; - is standard output."
        ),
    ] = STANDARD_OUTPUT,
    priors: Annotated[
        str | None,
        typer.Option(metavar="STORE", help="Store whose aligner's counts to start from; nothing is written to it."),
    ] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Write ` ||| ` and each link's posterior probability after the links.")
    ] = False,
) -> None:
    """Align the words of sentence pairs by sampling; Pharaoh lines `0-0 1-2`, line for line.

    Tokens are separated by spaces. A pair with an empty side gets an empty line.
    """
    announce_compilation()
    from hierogram.daemon.alignment.aligning import align as sample
    from hierogram.daemon.alignment.files import read_sentences, write_lines

    with interruptible("no file was written"):
        sources, targets = read_sentences(source), read_sentences(target)
        if len(sources) != len(targets):
            raise InputError(
                f"{source} has {plural(len(sources), 'line')}, {target} {plural(len(targets), 'line')}: "
                "a sentence and its translation must stand on the same line"
            )
        learned = _learned(priors) if priors is not None else None
        with progress("align", "sweeps") as shown:
            aligned = sample(sources, targets, request, lambda done, total: shown.update(done, total, done), learned)
        if output == STANDARD_OUTPUT:
            for line in aligned.lines(score):
                sys.stdout.write(line + "\n")
            return
        write_lines(Path(output), aligned.lines(score))
    note(f"{output}: {plural(aligned.pairs, 'pair')}, {plural(len(aligned.links.source), 'link')}")


def _learned(priors: str) -> "Callable[[Side, Side], Sequence[PriorCounts]]":
    """What the store's aligner knows about the words of two sides."""
    from hierogram.daemon.alignment.links.prior_counts import prior_counts_of
    from hierogram.storage.store import open_store

    def learned(source: "Side", target: "Side") -> "Sequence[PriorCounts]":
        with open_store(priors) as store:
            counts = store.aligner_counts(source.vocabulary, target.vocabulary)
            if not counts.jumps:
                note(f"{store.url}: its aligner has seen no pair yet: aligning without it")
            known = store.vocabulary_sizes()
        sizes = max(known[0], len(source.vocabulary)), max(known[1], len(target.vocabulary))
        return prior_counts_of(counts, source, target, sizes)

    return learned


def evaluate_alignment(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Manual links: `i-j` sure, `ipj` possible.")],
    hypothesis: Annotated[str, typer.Argument(metavar="HYP", help="Links to evaluate, Pharaoh lines.")],
    as_json: AsJson = False,
) -> None:
    """Compare links with manual ones: alignment error rate, precision, recall.

    Where HYP has more lines than GOLD, its first ones are compared.
    """
    from hierogram.daemon.alignment.evaluation import evaluate, read_gold, read_links

    right, found = read_gold(gold), read_links(hypothesis)
    if len(found) < len(right):
        raise InputError(
            f"{hypothesis} has {plural(len(found), 'line')}, {gold} {plural(len(right), 'line')}: "
            "every pair with manual links must be aligned"
        )
    result = evaluate(right, found[: len(right)])
    if as_json:
        say_json(asdict(result))
        return
    say(f"AER {result.aer:.4f}  precision {result.precision:.4f}  recall {result.recall:.4f}")
    manual = f"{result.sure:,} sure, {result.possible:,} possible"
    say(f"{plural(result.pairs, 'pair')}, {plural(result.links, 'link')}; manual: {manual}")
