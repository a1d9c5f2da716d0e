"""Commands that need no store: align, evaluate-alignment."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.commands.common import (
    AsJson,
    interruptible,
    named_store,
    note,
    note_text,
    plural,
    say,
    say_json,
)
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hierogram.daemon.corpora.texts import TextPipeline
    from hierogram.samplers.alignment.bitext import Side
    from hierogram.samplers.alignment.prior_counts import PriorCounts

STANDARD_OUTPUT = "-"


@with_options
def align(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC TGT | FILE",
            help="Source sentences, one a line, and their translations, line for line; or one file of "
            "`source ||| target` lines, of the same with tabs, or of JSON lines; .gz and .zst are unpacked, - is "
            "standard input.",
        ),
    ],
    request: Request,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Alignments to write; .gz or .zst compresses; - is standard output."
        ),
    ] = STANDARD_OUTPUT,
    tokenize: Annotated[
        str | None,
        typer.Option(
            metavar="SRC,TGT",
            help="Divide text into tokens, by the rules of two languages: fr,en.  [default: as --store does, or not]",
        ),
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Text is tokens separated by spaces: leave it as it is.")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Write ` ||| ` and each link's posterior probability after the links.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store whose aligner's counts to start from, and which says how text is divided into tokens; nothing "
            "is written to it.  [default: none]",
        ),
    ] = None,
) -> None:
    """Align the words of sentence pairs by sampling; Pharaoh lines `0-0 1-2`, line for line.

    Tokens are separated by spaces, where --tokenize or --store does not say what divides text into tokens. Links count
    tokens. A pair with an empty side gets an empty line.
    """
    announce_compilation()
    from hierogram.daemon.alignment.aligning import align as sample
    from hierogram.daemon.alignment.files import read_pairs, write_lines

    with interruptible("no file was written"):
        chosen = named_store(context, store)
        texts = _pipeline(chosen, tokenize, tokenized)
        sources, targets = read_pairs(files)
        for side, name, lines in ((texts.source, files[0], sources), (texts.target, files[-1], targets)):
            note_text(side, name, lines, tokenized)
        sources, targets = list(map(texts.source.tokens, sources)), list(map(texts.target.tokens, targets))
        learned = _learned(chosen) if chosen is not None else None
        with progress("align", "sweeps") as shown:
            aligned = sample(sources, targets, request, lambda done, total: shown.update(done, total, done), learned)
        if output == STANDARD_OUTPUT:
            for line in aligned.lines(score):
                sys.stdout.write(line + "\n")
            return
        write_lines(Path(output), aligned.lines(score))
    note(f"{output}: {plural(aligned.pairs, 'pair')}, {plural(len(aligned.links.source), 'link')}")


def _pipeline(store: str | None, tokenize: str | None, tokenized: bool) -> "TextPipeline":
    """What is done to the sentences, by options and by the store, if there is one."""
    from hierogram.daemon.corpora.texts import AS_IT_IS, pipeline_of, two_languages
    from hierogram.storage.store import open_store

    languages = two_languages(tokenize, "--tokenize") if tokenize is not None else None
    if tokenized:
        if languages is not None:
            raise UsageError("--tokenize divides text, and --tokenized leaves it as it is: give one of them")
        return AS_IT_IS
    if store is None:
        return pipeline_of({}, tokenize=languages)
    with open_store(store) as opened:
        return pipeline_of(opened.settings(), tokenize=languages)


def _learned(url: str) -> "Callable[[Side, Side], Sequence[PriorCounts]]":
    """What the store's aligner knows about the words of two sides."""
    from hierogram.daemon.alignment.links.prior_counts import prior_counts_of
    from hierogram.storage.store import open_store

    def learned(source: "Side", target: "Side") -> "Sequence[PriorCounts]":
        with open_store(url) as store:
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
