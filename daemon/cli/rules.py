"""Command that shows learned rules and the pairs that use them: rules."""

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_json, print_note, print_table
from hierogram.daemon.cli.flags import Exclude, given_options, with_options
from hierogram.daemon.exceptions import NothingLearnedError, UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson, CurrentSample, RuleQuery
from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from collections.abc import Sequence


@with_options
def rules(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        Option("Source side of the rules, such as `la [X,1] de`.", metavar="[WORDS]...", positional=True),
    ] = None,
    *,
    query: Annotated[RuleQuery, Exclude(("source",))],
    containing: Annotated[
        bool,
        Option(
            "Find rules that contain all WORDS, on either side, among rules in use and rules with at least 0.5 "
            "expected uses."
        ),
    ] = False,
    tree: Annotated[bool, Option("Draw the fragments of a tree grammar as outlines.")] = False,
    pairs: Annotated[
        bool,
        Option("Show the pairs or trees whose current derivation uses the rule WORDS, given as `source ||| target`."),
    ] = False,
    current_sample: CurrentSample = False,
    as_json: AsJson = False,
) -> None:
    """Show rules, most used first, with expected uses, standard errors, p(e|f) and p(f|e).

    Write a side as words and nonterminals numbered in source order, as in `la [X,1] de`. If no rule matches exactly,
    rules that differ only in accents or capital letters are shown. In a store that tokenizes text, `l'eau` finds
    `l' eau`. In a store of trees, WORDS is the root label of the fragments, and the probability is
    p(fragment | label).

    --pairs first adds the pairs sampled since the last update to the table rule_pairs. Without WORDS, only the table is
    updated.
    """
    if pairs:
        if containing or tree or current_sample or given_options(context, RuleQuery) - {"limit"}:
            raise UsageError("--pairs accepts only a rule such as `source ||| target`, --limit and --json")
        _show_occurrences(context, words or [], query.limit, as_json)
        return

    from hierogram.daemon.text.segments import WordView

    words = words or []
    source = None if containing or not words else " ".join(words)
    words = words if containing else []
    with open_chosen_store(context) as opened:
        grammar_kind = opened.grammar_kind()
        matching, respelled = opened.find_rules(
            source, query.target, containing=words, limit=query.limit, current_sample=current_sample
        )
        view = WordView(opened.settings().word_parts)
        similar, is_target = [], False
        if not matching:
            side = source or query.target or ""
            sides = (SOURCE, TARGET) if words else (SOURCE,) if source else (TARGET,)
            similar = opened.store.similar_words((words or side.split(" "))[0], sides)
            is_target = source is not None and bool(
                opened.find_rules(None, source, limit=1, current_sample=current_sample).rules
            )
        fragments = FRAGMENTS in grammar_kind.capabilities
    if tree and not fragments:
        raise UsageError("--tree requires a store of trees, because it draws tree fragments")
    if matching and respelled:
        print_note("no exact match: these rules differ in accents or capital letters")
    if as_json:
        print_json([asdict(rule) for rule in matching])
        return
    if not matching:
        if is_target:
            print_note(f"these words are the target side of rules: try --target {shlex.quote(source or '')}")
        else:
            print_note("no matching rules" + (": try --containing" if source is not None else ""))
        if similar:
            print_note(f"similar words: {', '.join(similar)}")
        return
    columns = ["count"] if current_sample else ["expected_uses", "±"]
    columns += ["p", "root", "fragment"] if fragments else ["p(e|f)", "p(f|e)", "source", "target"]
    rows = []
    for rule in matching:
        uses = (
            (str(rule.count),) if current_sample else (f"{rule.expected_uses:.2f}", f"{rule.expected_uses_error:.2f}")
        )
        if tree:
            amount = plural(rule.count, "use") if current_sample else f"{' ± '.join(uses)} uses"
            print(f"{rule.target}   ({amount}, p {rule.p_target_given_source:.4f})")
            depth = 2
            for piece in rule.target.split(" "):
                symbol = piece.rstrip(")")
                print("  " * depth + (symbol[1:] if symbol.startswith("(") else f"'{symbol}'"))
                depth += symbol.startswith("(") - (len(piece) - len(symbol))
        else:
            p = (rule.p_target_given_source, rule.p_source_given_target)[: 1 if fragments else 2]
            rows.append((*uses, *(f"{value:.4f}" for value in p), view.side(rule.source), view.side(rule.target)))
    if not tree:
        print_table(columns, rows, numeric=range(len(columns) - 2))


def _show_occurrences(context: typer.Context, words: "Sequence[str]", limit: int, as_json: bool) -> None:
    """Show the pairs whose current derivation uses a rule. Without a rule, only index new derivations."""
    from hierogram.daemon.text.segments import WordView
    from hierogram.samplers.exceptions import RuleNotationError
    from hierogram.samplers.grammar.rules import Rule

    try:
        rule = Rule.parse(" ".join(words)) if words else None
    except RuleNotationError as error:
        raise UsageError(str(error)) from error
    with (
        interruptible("indexed pairs are kept: run the command again to continue"),
        open_chosen_store(context) as opened,
    ):
        kind, indexed = opened.grammar_kind(), 0
        unindexed = opened.store.count_unindexed()
        if unindexed and opened.store.read_only:
            omitted = plural(unindexed, f"unindexed {kind.singular}")
            print_note(f"{opened.url}: the store is read-only: omitting {omitted}")
        elif unindexed:
            with progress("index", kind.plural) as bar:
                indexed = opened.index(bar.update)
        if not opened.status().rules_in_use:
            raise NothingLearnedError(opened.url)
        source, target = str(rule).split(" ||| ") if rule else ("", "")
        pairs = opened.pairs_using(source, target, limit) if rule else []
        view = WordView(opened.settings().word_parts)
    if as_json:
        print_json([pair._asdict() for pair in pairs] if rule else {"indexed": indexed})
    elif not rule:
        print(f"{plural(indexed, kind.singular)} indexed")
    elif not pairs:
        print_note(f"no current derivation uses {rule}")
    else:
        print_table(
            (kind.singular, "corpus", "uses", "source", "target", "alignment"),
            [
                (str(pair.id), pair.corpus, str(pair.uses), *view.pair(pair.source, pair.target, pair.alignment)[:3])
                for pair in pairs
            ],
            numeric=(0, 2),
        )
