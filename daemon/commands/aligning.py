"""Commands that need no store: align, evaluate-alignment."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.commands.common import AsJson, interruptible, note, plural, say, say_json
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.progress import progress
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, described_default, described_models

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hierogram.samplers.alignment.bitext import Side
    from hierogram.samplers.alignment.prior_counts import PriorCounts

STANDARD_OUTPUT = Path("-")


def align(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one a line; may be .gz or .zst.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Their translations, line for line.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Alignments to write; .gz or .zst compresses.")
    ] = STANDARD_OUTPUT,
    model: Annotated[str, typer.Option(help=f"A model: {described_models()}.")] = DEFAULT_MODEL,
    direction: Annotated[
        str, typer.Option(help="both, forward (a source word for each target word) or backward.")
    ] = "both",
    symmetrize: Annotated[
        str,
        typer.Option(help="How both directions become one: intersect, union, gd, gdf or gdfa (grow-diag-final-and)."),
    ] = "gdfa",
    sweeps: Annotated[
        int | None, typer.Option(min=1, help="Sweeps of each chain.", show_default="by model and corpus")
    ] = None,
    chains: Annotated[
        int | None, typer.Option(min=1, help="Chains to average over.", show_default=described_default("chains"))
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Positions that a link is drawn from: 2 or more for constant time, 0 for all.",
            show_default=described_default("candidates"),
        ),
    ] = None,
    similarity: Annotated[
        float | None,
        typer.Option(
            "--orthographic-similarity",
            "--likeness",
            min=0,
            help="Prior for words spelled alike; 0: none.",
            show_default=described_default("similarity"),
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random streams.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads; the result does not depend on them.", show_default="one a core"),
    ] = None,
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Words that differ in case alone are different words.")
    ] = False,
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

    request = Request(model, direction, symmetrize, sweeps, chains, candidates, similarity, seed, threads, keep_case)
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
        write_lines(output, aligned.lines(score))
    note(f"{output}: {plural(aligned.pairs, 'pair')}, {plural(len(aligned.links.source), 'link')}")


def _learned(priors: str) -> "Callable[[Side, Side], Sequence[PriorCounts]]":
    """What the store's aligner knows about the words of two sides."""
    from hierogram.daemon.alignment.prior_counts import prior_counts_of
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
