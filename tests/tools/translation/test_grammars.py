"""The grammar of a store: translation weights, means of all pairs, or one draw."""

import math
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import LINES
from tests.reference.compositions import exported_compositions
from tests.storage.rows import rule_rows

from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import MIN_EXPECTED, ExportOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.store import Store
from hierogram.tools.translation.grammars import StoreGrammar, open_grammar
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.resources import load_resources


def counts(store: Store, options: ExportOptions) -> dict[tuple[str, str], float]:
    with progress("read", "rules") as shown:
        grammar = StoreGrammar(store, options, shown).grammar
    packed, column = grammar.packed, grammar.features.index("count")

    def side(symbols: list[int], words: list[str]) -> str:
        return " ".join(words[symbol] if symbol >= 0 else f"[X,{-symbol}]" for symbol in symbols)

    return {
        (
            side(packed.source_side(k), grammar.source_words),
            side(packed.target_side(k), grammar.target_words),
        ): math.exp(packed.features[k, column])
        for k in range(packed.rules)
    }


@pytest.mark.slow
def test_counts_are_translation_weights_means_or_one_draw(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "new.bars"
    path.write_text("zut ||| darn ||| 0-0\n")
    with PairFiles([str(path)]) as source:
        ingest(learned, source)
    learn(learned, sweeps=0)
    with learned.snapshot() as snapshot:
        rules = {(rule.source, rule.target): rule for rule in rule_rows(snapshot) if rule.scope <= 2}
    default = counts(learned, ExportOptions(max_scope=2))
    composed = exported_compositions(LINES, MIN_EXPECTED)
    wanted = {
        sides: rule.expected_uses + rule.minimal_uses / 8 + composed.pop(sides, 0) / 4 for sides, rule in rules.items()
    }
    wanted |= {sides: uses / 4 for sides, uses in composed.items()}
    assert default == pytest.approx({sides: weight for sides, weight in wanted.items() if weight}, rel=1e-4)
    means = counts(learned, ExportOptions(max_scope=2, posterior_mean=True))
    assert set(means) < set(default)
    # A pair without means counts with its current derivation.
    assert means["zut", "darn"] == 1
    assert set(means) == {sides for sides, rule in rules.items() if rule.expected_uses}
    assert any(0 < count < 1 for count in means.values())
    assert all(math.isclose(count, rules[sides].expected_uses, rel_tol=1e-4) for sides, count in means.items())
    drawn = counts(learned, ExportOptions(max_scope=2, current_sample=True))
    assert {sides: round(count) for sides, count in drawn.items()} == {
        sides: rule.count for sides, rule in rules.items() if rule.count
    }
    several = counts(learned, ExportOptions(max_scope=2, posterior_mean=True, min_count=1))
    assert set(several) == {sides for sides, rule in rules.items() if rule.expected_uses >= 1}


def test_the_grammar_of_a_store_equals_its_export(learned: Store, tmp_path: Path) -> None:
    """Features read from columns equal features read from text, and give the same translations."""
    options = ExportOptions(max_scope=2, format="parquet")
    path = tmp_path / "grammar.parquet"
    export(learned, path, options)
    with progress("read", "rules") as shown:
        stored = StoreGrammar(learned, options, shown).grammar
        read = open_grammar(str(path), 2, shown)
    assert (stored.source_words, stored.target_words) == (read.source_words, read.target_words)
    assert stored.features == read.features
    assert (stored.circular, stored.wide, stored.pipeline) == (read.circular, read.wide, read.pipeline)
    assert stored.packed.rules > 10
    for name, one, other in zip(stored.packed._fields, stored.packed, read.packed, strict=True):
        # Numbers in text have an error in the last digit.
        np.testing.assert_allclose(one, other, rtol=1e-13 if name == "features" else 0, err_msg=name)
    translators = [load_resources(TranslateOptions()).translator(grammar) for grammar in (stored, read)]
    for row in learned.pairs():
        one, other = (translator.translate(row.source, best=5) for translator in translators)
        assert one.text
        assert [found.text for found in one.candidates] == [found.text for found in other.candidates]
        assert one.derivation() == other.derivation()
        assert one.alignment() == other.alignment()
