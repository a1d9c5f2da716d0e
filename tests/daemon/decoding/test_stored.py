"""The grammar of a store: means of all pairs, or one draw."""

import math
from pathlib import Path

from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.decoding.stored import stored_grammar
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.store import Store


def counts(store: Store, options: ExportOptions) -> dict[tuple[str, str], float]:
    """Counts of rules by their sides."""
    with progress("read", "rules") as shown:
        grammar = stored_grammar(store, options, 2, shown).grammar
    packed, column = grammar.packed, grammar.features.index("count")

    def side(symbols: list[int], words: list[str]) -> str:
        return " ".join(words[symbol] if symbol >= 0 else f"[X,{-symbol}]" for symbol in symbols)

    return {
        (side(packed.source_of(k), grammar.source_words), side(packed.target_of(k), grammar.target_words)): math.exp(
            packed.features[k, column]
        )
        for k in range(packed.rules)
    }


def test_counts_are_means_or_one_draw(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "new.bars"
    path.write_text("zut ||| darn ||| 0-0\n")
    with Input([str(path)]) as source:
        ingest(learned, source)
    learn(learned, sweeps=0)
    with learned.snapshot() as snapshot:
        rules = {(rule.source, rule.target): rule for rule in snapshot.iterate_all_rule_rows() if rule.scope <= 2}
    means = counts(learned, ExportOptions(max_scope=2))
    # A pair that has no means yet counts by its present derivation.
    assert means["zut", "darn"] == 1
    assert set(means) == {sides for sides, rule in rules.items() if rule.sampled_count}
    assert any(0 < count < 1 for count in means.values())
    assert all(
        math.isclose(count, rules[sides].sampled_count / ONE_USE, rel_tol=1e-4) for sides, count in means.items()
    )
    drawn = counts(learned, ExportOptions(max_scope=2, drawn=True))
    assert {sides: round(count) for sides, count in drawn.items()} == {
        sides: rule.count for sides, rule in rules.items() if rule.count
    }
    several = counts(learned, ExportOptions(max_scope=2, min_count=1))
    assert set(several) == {sides for sides, rule in rules.items() if rule.sampled_count >= ONE_USE}
