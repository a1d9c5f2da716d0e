"""Evidence extension of the daemon: the command and the route `evidence`."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import open_chosen_store, print_json, print_note, print_table
from hierogram.daemon.cli.flags import given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.extensions import INSPECT, Command, Extension
from hierogram.daemon.shared_options import AsJson
from hierogram.storage.options import Option
from hierogram.tools.evidence.options import MAX_CHARACTERS, EvidenceOptions, candidate_limits

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.web.protocol.context import WebContext
    from hierogram.tools.evidence.retrieval import Evidence

TABLE, PROMPT, JSON = "table", "prompt", "json"


@with_options
def evidence(
    context: typer.Context,
    sentence: Annotated[str, Option("Sentence in the source language.", metavar="SENTENCE", positional=True)],
    *,
    options: EvidenceOptions,
    format: Annotated[
        str | None,
        Option("Output format", values={TABLE: "", PROMPT: "text for a language model", JSON: ""}, shown=TABLE),
    ] = None,
    characters: Annotated[
        int | None,
        Option(
            "With --format prompt: print up to N characters of evidence, chosen to cover the sentence, without the "
            "sentence itself.",
            min=1,
            max=MAX_CHARACTERS,
            metavar="N",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show rules that match a sentence, and stored pairs that together cover much of it.

    Rules with gaps are included. The store is not changed.
    """
    from hierogram.daemon.text.pipeline import make_pipeline
    from hierogram.tools.evidence.budget import fit_budget
    from hierogram.tools.evidence.retrieval import as_prompt
    from hierogram.tools.evidence.retrieval import evidence as retrieve_evidence

    if as_json and format not in (None, JSON):
        raise UsageError(f"--json and --format {format} are mutually exclusive")
    if characters is not None:
        if format != PROMPT:
            raise UsageError("--characters requires --format prompt")
        if given_limits := given_options(context, EvidenceOptions) - {"tokenized"}:
            raise UsageError(f"--characters and --{min(given_limits)} are mutually exclusive")
        options = candidate_limits(tokenized=options.tokenized)
    with open_chosen_store(context) as opened:
        result, pipeline = retrieve_evidence(opened, sentence, options=options), make_pipeline(opened.settings())
    if as_json or format == JSON:
        print_json(asdict(result))
    elif characters is not None:
        print(fit_budget(result, characters, pipeline))
    elif format == PROMPT:
        print(as_prompt(result, sentence, pipeline), end="")
    else:
        _print_evidence(result)


def _print_evidence(evidence: "Evidence") -> None:
    rows = [
        (
            rule.source,
            rule.target,
            f"{rule.p_target_given_source:.3f}",
            f"{rule.expected_uses:,.1f}",
            " ".join(f"{first}-{end - 1}" if end - first > 1 else f"{first}" for first, end in rule.matches[0].words),
        )
        for rule in evidence.rules
    ]
    print_table(("source", "target", "p(target|source)", "uses", "words"), rows, numeric=(2, 3))
    if evidence.pairs:
        print()
        pairs = [(str(pair.id), pair.corpus, pair.source, pair.target) for pair in evidence.pairs]
        print_table(("pair", "corpus", "source", "target"), pairs, (0,))
    if evidence.entries:
        print()
        entries = [(entry.corpus, entry.source, entry.target) for entry in evidence.entries]
        print_table(("dictionary", "source", "target"), entries)
    if not evidence.rules:
        print_note("no matching rules: the words are not covered, or nothing has been learned yet")
    if evidence.unknown:
        print_note(f"unknown words: {' '.join(evidence.unknown)}")


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.evidence.routes import evidence_routes

    yield evidence_routes(context.service)


_EXAMPLE = "hierogram evidence 'la maison blanche est vide .' --format prompt"
EXTENSION = Extension(commands=[Command(INSPECT, evidence, _EXAMPLE)], routes=_routes)
