"""The command that leads from a rule to the pairs that use it: support."""

from typing import Annotated

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    interruptible,
    note,
    nouns_of,
    plural,
    say,
    say_json,
    say_table,
    store_url,
)
from hierogram.daemon.exceptions import NothingLearnedError, UsageError
from hierogram.daemon.progress import progress


def support(
    context: typer.Context,
    rule: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RULE]...", help="A rule, `source ||| target`; without it only the index is made."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Pairs, or trees, to show.")] = 20,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Show the pairs, or trees, whose present derivation uses a rule.

    Brings the table rule_pairs up to date first, on which the view rule_support stands: only pairs that were sampled
    since the last time are counted again.
    """
    from hierogram.samplers.exceptions import RuleNotationError
    from hierogram.samplers.grammar.rules import Rule, render_side
    from hierogram.storage.store import open_store

    try:
        wanted = Rule.parse(" ".join(rule)) if rule else None
    except RuleNotationError as error:
        raise UsageError(str(error)) from error
    with (
        interruptible("what was indexed stays; run the same command again to go on"),
        open_store(store_url(context, store)) as opened,
    ):
        kind, indexed = nouns_of(opened), 0
        if waiting := opened.count_unindexed():
            from hierogram.daemon.commands.grammar import announce_compilation

            announce_compilation()
            from hierogram.daemon.grammar.occurrences import index_support

            with progress("index", kind.many) as shown:
                indexed = index_support(opened, lambda number: shown.update(number, waiting, number))
        if not opened.status().rules:
            raise NothingLearnedError(opened.url)
        found = opened.supporting_pairs(render_side(wanted.source), render_side(wanted.target), limit) if wanted else []
    if as_json:
        say_json([pair._asdict() for pair in found] if wanted else {"indexed": indexed})
    elif not wanted:
        say(f"{plural(indexed, kind.one)} indexed")
    elif not found:
        note(f"no present derivation uses {wanted}")
    else:
        say_table(
            (kind.one, "corpus", "uses", "source", "target", "alignment"),
            [(str(pair.id), pair.corpus, str(pair.uses), pair.source, pair.target, pair.alignment) for pair in found],
            numeric=(0, 2),
        )
