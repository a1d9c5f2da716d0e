"""The command `demo`, which runs the complete workflow on a bundled corpus."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import interruptible, named_store, open_or_create, plural
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.cli.learning import align_pending, learning_progress, print_aligned, print_learned
from hierogram.daemon.extensions import LEARN, Command, Extension
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import OUTPUT, SWEEPS
from hierogram.samplers.grammar.rules import Rule, parse_side
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.library.learning import Learning
    from hierogram.daemon.library.store import GrammarStore
    from hierogram.storage.records.grammar import RuleRow
    from hierogram.tools.demo.data import VersePair

DEMO_STORE = "sqlite:///hierogram-demo.db"
DEMO_ALIGN_STORE = "sqlite:///hierogram-demo-align.db"
DEMO_EXPORT = Path("hierogram-demo.cdec.gz")
CORPUS = "new-testament"

_SHOWN_RULES = 5
_MIN_USES = 2
PHRASE, WORD_ORDER, GAP = "phrases", "word order", "rules with a gap"


@with_options
def demo(
    context: typer.Context,
    sweeps: Annotated[int, replace(SWEEPS, shown=None)] = 30,
    output: Annotated[Path, replace(OUTPUT, help="File to write.")] = DEMO_EXPORT,
    align: Annotated[bool, Option("Align the pairs, and compare the links with the manual links.")] = False,
) -> None:
    """Learn a grammar from the New Testament. This takes one or two minutes.

    Stores 7,936 pairs of Greek and English verses with manual word alignments in hierogram-demo.db (or --store),
    learns, exports, and prints rules. With --align, the pairs are stored without links in hierogram-demo-align.db (or
    --store, which must be new), aligned, and compared with the manual links.
    """
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.tools.demo.data import CREDITS, read_verses

    # Ignore HIEROGRAM_STORE, because it names the user's own store.
    store = named_store(context) or (DEMO_ALIGN_STORE if align else DEMO_STORE)
    with interruptible("run `hierogram demo` again to continue"):
        verses = list(read_verses())
        print(CREDITS)
        with open_or_create(store) as opened:
            done = opened.add([verse.as_input(not align) for verse in verses], corpus=CORPUS, origin=CORPUS)
            links = plural(sum(len(verse.links) for verse in verses), "manual link")
            with_links = f"ignoring {links}" if align else f"with {links}"
            duplicates = f" ({done.totals.duplicates:,} duplicates)" if done.totals.duplicates else ""
            print(f"{plural(len(verses), 'pair')} of verses in {opened.url}{duplicates}, {with_links}")
            learning = opened.learn(sweeps, options=LearnOptions())
            if align:
                _align(opened, learning, verses)
            with progress("learn", "pairs") as bar:
                learned = learning.sample(learning_progress(bar))
                learning.finish()
                print_learned(learned, opened.grammar_kind())
            manifest = opened.export(output)
            rules = f"{plural(manifest.rules, 'rule')} of scope {manifest.options['max_scope']} or less"
            print(f"{output}: {rules}, {plural(manifest.bytes, 'byte')}")
            _print_examples(opened)


def _align(opened: "GrammarStore", learning: "Learning", verses: "Sequence[VersePair]") -> None:
    from hierogram.tools.alignment_scores import GoldLinks, evaluate

    print_aligned(align_pending(learning))
    links_by_texts = {(pair.source, pair.target): frozenset(pair.links) for pair in opened.pairs()}
    gold, learned = [], []
    for verse in verses:
        links = links_by_texts.get((" ".join(verse.source), " ".join(verse.target)))
        if links is not None:
            gold.append(GoldLinks(frozenset(verse.links), frozenset(verse.links)))
            learned.append(links)
    result = evaluate(gold, learned)
    print(
        f"  compared with the manual links: AER {result.aer:.3f}, precision {result.precision:.3f}, recall "
        f"{result.recall:.3f}"
    )


def _print_examples(opened: "GrammarStore") -> None:
    print("\nMost used and most probable rules:")
    for kind, listed in select_example_rules(opened.rules(), _SHOWN_RULES).items():
        if listed:
            print(f"  {kind}")
        for rule in listed:
            probabilities = f"p(e|f) {rule.p_target_given_source:.2f}, p(f|e) {rule.p_source_given_target:.2f}"
            print(f"    {rule.source} → {rule.target}   ({rule.expected_uses:.1f} uses, {probabilities})")
    print("\nHow is λόγος translated, and how often? Query the store:")
    url = opened.url
    exact = "" if url.startswith("sqlite:") else "::numeric"
    query = (
        f"SELECT source, target, round(expected_uses{exact}, 1) AS uses, round(p_target_given_source{exact}, 2) AS p "
        "FROM word_rules WHERE token = 'λόγος' ORDER BY expected_uses DESC, source, target LIMIT 5"
    )
    print(f'  hierogram sql --store {url} "{query}"')
    print(f"  hierogram rules --store {url} --containing λόγος")


def select_example_rules(rules: "Iterable[RuleRow]", number: int) -> "dict[str, list[RuleRow]]":
    """Return up to `number` rules of each kind, ranked by expected uses · p(e|f) · p(f|e)."""
    rules_by_kind: dict[str | None, list[RuleRow]] = {PHRASE: [], WORD_ORDER: [], GAP: [], None: []}
    for rule in rules:
        if rule.expected_uses >= _MIN_USES:
            rules_by_kind[classify_rule(Rule(parse_side(rule.source), parse_side(rule.target)))].append(rule)

    def rank(rule: "RuleRow") -> tuple[float, int]:
        return rule.expected_uses * rule.p_target_given_source * rule.p_source_given_target, -rule.id

    return {kind: heapq.nlargest(number, listed, key=rank) for kind, listed in rules_by_kind.items() if kind}


def classify_rule(rule: Rule) -> str | None:
    """Return the kind of a rule: PHRASE, WORD_ORDER, GAP (words around a gap), or None for other rules."""
    if not (rule.source_terminals and rule.target_terminals):
        return None
    if not rule.nonterminals:
        return PHRASE if rule.source_terminals > 1 and rule.target_terminals > 1 else None
    # Replace each run of words by one 0, because only the order of words and gaps matters.
    source, target = (
        [symbol for symbol, _ in groupby(0 if isinstance(symbol, str) else symbol for symbol in side)]
        for side in (rule.source, rule.target)
    )
    if source != target:
        return WORD_ORDER
    return GAP if source.count(0) > 1 else None


EXTENSION = Extension(commands=[Command(LEARN, demo, "hierogram demo --align")])
