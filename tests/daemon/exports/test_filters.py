"""Filters of exported rules, checked against slow references."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.daemon.exports import parsers
from tests.daemon.exports.rules import Given, write

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.filters import SentenceIndex
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.rules import Rule, Side, parse_side, render_side
from hierogram.storage.options import from_plain

SIDES = [
    "a",
    "a b",
    "[X,1]",
    "a [X,1]",
    "[X,1] b",
    "a [X,1] b",
    "[X,1] [X,2]",
    "a [X,1] [X,2] b",
    "[X,1] a [X,2] b [X,3]",
]
SIDES += ["a b c d e", "a b c d e f", "] [X,1] [b", "x] [X,1] [X,2]"]
RULES = [
    Given(source, " ".join(target), k % 9 + 1, "0-0" if k % 3 else "")
    for k, (source, words) in enumerate(product(SIDES, ["", "u", "u v w", "u " * 11]))
    if (target := words.split() + [symbol for symbol in source.split() if symbol.startswith("[X,")])
]


def export_filtered(folder: Path, **options: object) -> tuple[set[tuple[str, str]], list[tuple[str, int, int]]]:
    wanted = ExportOptions(format="tsv", features=("count",), **{"max_scope": None, **options})
    path, written, counts = write(folder, RULES, wanted)
    rows = [line.split("\t") for line in parsers.lines(path)[1:]]
    assert written[0] == len(rows)
    return {(row[0], row[1]) for row in rows}, [(c.filter, c.before, c.after) for c in counts]


def parse_rule(given: Given) -> Rule:
    return Rule(parse_side(given.source), parse_side(given.target))


def has_adjacent(rule: Rule) -> bool:
    return any(isinstance(a, int) and isinstance(b, int) for a, b in zip(rule.source, rule.source[1:], strict=False))


SINGLE = {
    "min_count": (5, lambda given, rule: given.uses >= 5),
    "max_scope": (1, lambda given, rule: rule.scope <= 1),
}


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_filters_by_count_and_by_scope_select_the_expected_rules(tmp_path: Path, name: str) -> None:
    value, condition = SINGLE[name]
    found, counts = export_filtered(tmp_path, **{name: value})
    wanted = {(given.source, given.target) for given in RULES if condition(given, parse_rule(given))}
    assert found == wanted
    assert 0 < len(wanted) < len(RULES)
    assert [(before, after) for _, before, after in counts] == [(len(RULES), len(wanted))]


def test_hiero_requires_words_on_both_sides_of_rules_without_links(tmp_path: Path) -> None:
    rules = [Given("a [X,1]", "[X,1] x"), Given("a", "x"), Given("a [X,1]", "[X,1]"), Given("[X,1]", "[X,1] x")]
    path, _, counts = write(tmp_path, rules, ExportOptions(format="tsv", hiero=True, max_scope=None))
    assert len(parsers.lines(path)) == 3
    assert counts[3].filter.startswith("words on both sides")


def test_hiero_preset_combines_all_constraints(tmp_path: Path) -> None:
    found, counts = export_filtered(tmp_path, hiero=True)
    wanted = set()
    for given_rule in RULES:
        rule = parse_rule(given_rule)
        if (
            rule.nonterminals <= 2
            and not has_adjacent(rule)
            and len(rule.source) <= 5
            and given_rule.alignment
            and max(len(rule.source), len(rule.target)) <= 10
        ):
            wanted.add((given_rule.source, given_rule.target))
    assert found == wanted
    assert len(counts) == 5
    assert [before for _, before, _ in counts[1:]] == [after for *_, after in counts[:-1]]


def test_the_best_rules_of_a_source_side_are_kept(tmp_path: Path) -> None:
    found, counts = export_filtered(tmp_path, per_source=2, min_count=2)
    wanted = set()
    for source in SIDES:
        rules = [given for given in RULES if given.source == source and given.uses >= 2]
        wanted |= {(r.source, r.target) for r in sorted(rules, key=lambda r: (-r.uses, r.target))[:2]}
    assert found == wanted
    assert counts[-1] == ("best 2 per source side", counts[0][2], len(wanted))


def test_the_alphabetically_first_target_of_equally_frequent_rules_is_kept(tmp_path: Path) -> None:
    rules = [Given("a", target, 3) for target in ("y", "x", "z")] + [Given("b", "y", 1), Given("b", "x", 2)]
    path, _, _ = write(tmp_path, rules, ExportOptions(format="tsv", features=("count",), per_source=1))
    assert [line.split("\t")[:2] for line in parsers.lines(path)[1:]] == [["a", "x"], ["b", "x"]]


def test_probabilities_are_relative_to_all_rules_before_filters(tmp_path: Path) -> None:
    rules = [Given("a", "x", 6), Given("a", "y", 2), Given("b", "x", 1), Given("b b b b b b", "x", 9)]
    features = ("p_target_given_source", "p_source_given_target")
    options = ExportOptions(format="tsv", features=features, smoothing=0, min_count=3, per_source=1)
    path, _, _ = write(tmp_path, rules, options)
    row = next(line.split("	") for line in parsers.lines(path)[1:] if line.startswith("a	"))
    assert (float(row[-2]), float(row[-1])) == (6 / 8, 6 / 16)


def test_min_count_applies_to_average_counts(tmp_path: Path) -> None:
    rules = [Given("a", "x", 6), Given("a", "y", 2)]
    path, _, _ = write(
        tmp_path, rules, ExportOptions(format="tsv", features=("count",), min_count=0.75), units_per_use=8
    )
    assert [line.split("\t")[-1] for line in parsers.lines(path)[1:]] == ["0.75"]


def test_invalid_export_options_are_rejected() -> None:
    for wrong in ({"format": "word"}, {"features": ("magic",)}, {"format": "vmap", "features": ("count",)}, {"x": 1}):
        with pytest.raises(ValidationError, match=r"cdec|magic|fixed|Unexpected"):
            from_plain(ExportOptions, wrong)


def fits(side: Side, words: list[str]) -> bool:
    """Check if the side matches some span of the words, by brute force."""

    def ends(start: int, rest: Side) -> bool:
        if not rest:
            return True
        if isinstance(rest[0], str):
            return start < len(words) and words[start] == rest[0] and ends(start + 1, rest[1:])
        return any(ends(end, rest[1:]) for end in range(start + 1, len(words) + 1))

    return any(ends(start, side) for start in range(len(words) + 1))


symbols = st.lists(st.one_of(st.sampled_from(["a", "b", "[X,1]", "\\"]), st.none()), min_size=1, max_size=6)
sentences = st.lists(st.lists(st.sampled_from(["a", "b", "[X,1]", "\\"]), max_size=8), min_size=1, max_size=5)


@pytest.mark.slow
@given(symbols, sentences)
@settings(max_examples=400)
def test_sentence_index_finds_the_sentences_that_a_side_matches(
    side: list[str | None], test_set: list[list[str]]
) -> None:
    number = iter(range(1, 10))
    parsed: Side = tuple(next(number) if symbol is None else symbol for symbol in side)
    found = SentenceIndex(" ".join(words) for words in test_set).matches(render_side(parsed))
    assert list(found) == [k for k, words in enumerate(test_set) if fits(parsed, words)]


def test_sentence_index_searches_only_sentences_with_the_rarest_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Places(dict[int, list[int]]):
        calls = 0

        def __contains__(self, number: object) -> bool:
            Places.calls += 1
            return super().__contains__(number)

    find = SentenceIndex._find
    monkeypatch.setattr(SentenceIndex, "_find", lambda test_set, run: Places(find(test_set, run)))
    test_set = SentenceIndex(["the the the"] * 500 + ["rare is the x", "the x is rare"] * 3)
    assert list(test_set.matches("the [X,1] rare")) == [501, 503, 505]
    # Both runs are searched in the six sentences with the rare word, and in no other.
    assert Places.calls == 12
    assert next(test_set.matches("the [X,1]")) == 0
    assert Places.calls == 13


def test_filter_for_keeps_only_rules_that_match_the_test_set(tmp_path: Path) -> None:
    test_set = tmp_path / "test.src"
    test_set.write_text("z a q b\n\nc c c\n")
    found, counts = export_filtered(tmp_path, filter_for=test_set)
    words = [line.split() for line in test_set.read_text().splitlines()]
    assert found == {(r.source, r.target) for r in RULES if any(fits(parse_side(r.source), line) for line in words)}
    assert counts[-1][0] == "matches a sentence of test.src"
    test_set.write_text("\ufeff" + test_set.read_text())
    assert export_filtered(tmp_path / "marked", filter_for=test_set)[0] == found
    with pytest.raises(ExportError, match="cannot be read as a test set"):
        export_filtered(tmp_path / "other", filter_for=tmp_path / "missing")
