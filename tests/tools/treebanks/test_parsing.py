"""The parser compared with an enumeration of derivations, grammar files, and the commands for trees."""

import gzip
import json
from collections import Counter, defaultdict
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.daemon.conftest import Run
from tests.reference.parsing import derivations, process_log_weight, productions, weight
from tests.reference.streams import Stream

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.text.treebanks.trees import Tree, read_tree
from hierogram.samplers.charts.chart import fill_chart, restrict_grammar
from hierogram.samplers.charts.derivations import ChartDerivations, DerivationSamples, SentenceKey, count_visits
from hierogram.samplers.exceptions import GrammarError
from hierogram.samplers.grammar.settings import UNIFORM
from hierogram.tools.lab.measures.treebanks import to_context_free
from hierogram.tools.treebanks.approximation import Approximation, approximate, solve_strength
from hierogram.tools.treebanks.grammars import Prior, TreeGrammar, binarize, read_grammar
from hierogram.tools.treebanks.parsing import Parser
from hierogram.tools.treebanks.requests import METHODS, MPD

AMBIGUOUS = """
(S (NP) (VP)) ||| 6
(S (NP (PRP she)) (VP (V saw) (NP))) ||| 3
(S (NP) (VP (VP) (PP (P with) (NP)))) ||| 2
(NP (PRP she)) ||| 4
(NP (NP) (PP)) ||| 3
(NP (N stars)) ||| 4
(NP (N ears)) ||| 2
(NP (N)) ||| 2
(NP (NP (N stars)) (PP)) ||| 1
(NP (S)) ||| 0.2
(VP (V) (NP)) ||| 5
(VP (VP) (PP)) ||| 2
(VP (V saw) (NP (NP) (PP (P with) (NP)))) ||| 2
(VP (S)) ||| 0.2
(S (VP)) ||| 0.5
(S (VP (NP))) ||| 0.2
(PP (P with) (NP)) ||| 4
(PP (P) (NP (N ears))) ||| 1
(P with) ||| 2
(V saw) ||| 3
(N stars) ||| 2
(N ears) ||| 1
(TOP (S)) ||| 7
(TOP (S (NP))) ||| 1
"""
SENTENCE = ["she", "saw", "stars", "with", "ears"]
DEEP = 9
"""Maximum depth of enumerated derivations. Deeper derivations have unary loops and weigh less than the tolerance."""


def parse_grammar(text: str) -> TreeGrammar:
    rows = [line.split(" ||| ") for line in text.strip().splitlines()]
    return TreeGrammar([(read_tree(tree, frontiers=True), float(count)) for tree, count in rows])


def to_tuples(node: Tree | str):
    return node if isinstance(node, str) else (node.label, *map(to_tuples, node.children))


def list_weights(known: Approximation, fragments: list) -> tuple[dict, dict, dict]:
    """Return the weight and mass of each fragment in the approximation, and the total mass of each label."""
    processes = known.processes
    seated = dict(zip(fragments, processes.fragment_mass.tolist(), strict=True))
    whole = {f[0]: float(processes.label_mass[label]) for f, label in zip(fragments, processes.label, strict=True)}
    return {f: seated[f] / whole[f[0]] for f in fragments}, seated, whole


def kept_fragments(grammar: TreeGrammar, smoothed: bool) -> list:
    found = dict.fromkeys(to_tuples(fragment) for fragment, _ in grammar.fragments)
    if smoothed:
        for label, right, lexical in grammar.productions():
            found.setdefault((label, *(word if lexical else (word,) for word in right)))
    return list(found)


def build_forest(known: Approximation, words: list[str], best: bool = False) -> ChartDerivations:
    rules = restrict_grammar(known.chart, np.array([known.words[word] for word in words], np.int32), best)
    return ChartDerivations(rules, fill_chart(rules), known.root)


@pytest.fixture(scope="module", params=[False, True], ids=["relative", "smoothed"])
def example(request: pytest.FixtureRequest):
    """The approximated ambiguous grammar, its weights and masses, and all derivations of the sentence."""
    grammar = parse_grammar(AMBIGUOUS)
    known = approximate(grammar, smoothed=request.param)
    weights, seated, whole = list_weights(known, kept_fragments(grammar, request.param))
    found = list(derivations(weights, "TOP", SENTENCE, DEEP if not request.param else DEEP - 2))
    assert len({derivation.tree for derivation in found}) > 10
    return known, weights, seated, whole, found


@pytest.mark.slow
def test_the_inside_weight_is_the_sum_over_derivations(example) -> None:
    known, weights, _, _, found = example
    total = sum(weight(weights, derivation) for derivation in found)
    forest = build_forest(known, SENTENCE)
    assert forest.graph.chart.log_weight(known.root, len(SENTENCE)) == pytest.approx(log(total), abs=2e-3)


def test_the_best_derivation_has_maximum_weight(example) -> None:
    known, weights, _, _, found = example
    best = max(found, key=lambda derivation: weight(weights, derivation))
    forest = build_forest(known, SENTENCE, best=True)
    assert forest.graph.chart.log_weight(known.root, len(SENTENCE)) == pytest.approx(log(weight(weights, best)))
    parsed = Parser(known).parse(SENTENCE, 0, MPD)
    assert to_tuples(parsed.tree) == best.tree


def expected_productions(weights, found) -> dict:
    expected: defaultdict[tuple, float] = defaultdict(float)
    total = sum(weight(weights, derivation) for derivation in found)
    for derivation in found:
        for production in productions(derivation.tree)[0]:
            expected[production] += weight(weights, derivation) / total
    return expected


def productions_by_span(known: Approximation, forest: ChartDerivations, counts) -> dict:
    got: defaultdict[tuple, float] = defaultdict(float)
    table = known.productions
    for item in forest.graph.items.item[: forest.graph.items.used[0]]:
        for o in range(item["first"], item["last"]):
            option = forest.graph.items.edge[o]
            kind, rule, split = int(option["kind"]), int(option["rule"]), int(option["split"])
            for p in range(table.start[kind, rule], table.start[kind, rule + 1]):
                label, right, _ = known.production_list[table.production[p]]
                start, end = int(item["start"]), int(item["end"])
                spans = [(start, split, end) if len(right) == 2 else (start, end), (start, split), (split, end)]
                got[(label, right, *spans[table.span_kind[p]])] += counts[o]
    return got


def test_expected_production_counts_equal_the_enumeration(example) -> None:
    known, weights, _, _, found = example
    forest = build_forest(known, SENTENCE)
    got = productions_by_span(known, forest, forest.expected())
    expected = expected_productions(weights, found)
    assert sum(got.values()) > 9
    for production in set(got) | set(expected):
        assert got.get(production, 0) == pytest.approx(expected.get(production, 0), abs=6e-3)


def test_drawn_trees_follow_the_grammar_and_their_repeats_the_dirichlet_processes(example) -> None:
    known, weights, seated, whole, found = example
    forest = build_forest(known, SENTENCE)
    drawn = forest.draw(SentenceKey(7, 0), 40_000, known.productions, known.processes)
    parser = Parser(known)
    of_hash: dict[int, tuple] = {}
    for k in np.unique(drawn.tree, return_index=True)[1].tolist():
        of_hash[int(drawn.tree[k])] = to_tuples(parser._tree(forest, forest.derivation(SentenceKey(7, 0), k)))
    assert len(set(of_hash.values())) == len(of_hash)
    visits = count_visits(SentenceKey(7, 0), drawn)
    for weigh, counts in (
        (lambda d: weight(weights, d), np.ones(len(visits))),
        (lambda d: exp(process_log_weight(seated, whole, d)), visits),
    ):
        exact: Counter = Counter()
        for derivation in found:
            exact[derivation.tree] += weigh(derivation)
        total = sum(exact.values())
        got: Counter = Counter()
        for tree, count in zip(drawn.tree.tolist(), counts.tolist(), strict=True):
            got[of_hash[tree]] += count / len(visits)
        distance = sum(abs(got[tree] - exact[tree] / total) for tree in set(got) | set(exact)) / 2
        assert distance < 0.02


def test_the_processes_differ_from_the_approximation_in_the_example(example) -> None:
    """Without this difference, the test of the Metropolis-Hastings correction could not fail."""
    _, weights, seated, whole, found = example
    plain = np.array([weight(weights, d) for d in found])
    process = np.exp([process_log_weight(seated, whole, d) for d in found])
    assert np.abs(plain / plain.sum() - process / process.sum()).sum() / 2 > 0.03


@pytest.mark.parametrize("sentence", range(4))
def test_repeats_in_the_chain_over_draws_equal_the_twin(sentence: int) -> None:
    log_ratio = np.random.default_rng(sentence).normal(0, 0.7, 500)
    uniform = Stream(9, sentence, len(log_ratio)).uniform
    expected = [0] * len(log_ratio)
    at = 0
    for draw, ratio in enumerate(log_ratio.tolist()):
        if log(uniform()) < ratio - log_ratio[at]:
            at = draw
        expected[at] += 1
    visits = count_visits(SentenceKey(9, sentence), DerivationSamples(np.zeros(len(log_ratio), np.uint64), log_ratio))
    assert visits.tolist() == expected
    assert 0.2 < np.count_nonzero(visits) / len(visits) < 0.8


REPEATED = """
(TOP (S)) ||| 1
(S (A) (A)) ||| 100
(S (B) (C)) ||| 1.3
(A x) ||| 1
(A y) ||| 9
(B x) ||| 1
(C x) ||| 1
"""
"""Grammar with a parse that uses the fragment (A x) twice.

    Under the process, two uses of a fragment are more probable than the square of its probability.
    """


def test_the_most_probable_parse_of_repeated_words_is_not_the_most_probable_derivation() -> None:
    parser = Parser(approximate(parse_grammar(REPEATED), smoothed=False), draws=4000)
    assert str(parser.parse(["x", "x"], 0, "mpp").tree) == "(TOP (S (A x) (A x)))"
    assert str(parser.parse(["x", "x"], 0, MPD).tree) == "(TOP (S (B x) (C x)))"


def test_log_ratios_equal_the_ratios_of_the_processes(example) -> None:
    known, weights, seated, whole, found = example
    forest = build_forest(known, SENTENCE)
    drawn = forest.draw(SentenceKey(3, 1), 200, known.productions, known.processes)
    ratios: defaultdict[tuple, set] = defaultdict(set)
    for derivation in found:
        ratios[derivation.tree].add(process_log_weight(seated, whole, derivation) - log(weight(weights, derivation)))
    parser = Parser(known)
    for k in range(200):
        tree = to_tuples(parser._tree(forest, forest.derivation(SentenceKey(3, 1), k)))
        if tree in ratios:
            assert min(abs(drawn.log_ratio[k] - ratio) for ratio in ratios[tree]) < 1e-9


def test_counts_of_draws_equal_counts_of_their_derivations(example) -> None:
    known = example[0]
    forest = build_forest(known, SENTENCE)
    drawn = forest.draw(SentenceKey(5, 2), 100, known.productions, known.processes)
    counts = forest.count_uses(SentenceKey(5, 2), np.arange(100))
    again = np.zeros_like(counts)
    for k in range(100):
        np.add.at(again, forest.derivation(SentenceKey(5, 2), k), k)
    assert np.array_equal(counts, again)
    assert len(drawn.tree) == 100


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4), st.integers(0, 10_000))
@settings(max_examples=15)
def test_sentence_weights_of_random_grammars_are_at_least_the_enumerated_sum(words: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)

    def part(depth: int) -> Tree:
        label = "TAB"[random.integers(3)]
        if depth == 0 or random.random() < 0.3:
            return Tree(label)
        if random.random() < 0.4:
            return Tree(label, ("ab"[random.integers(2)],))
        return Tree(label, tuple(part(depth - 1) for _ in range(random.integers(1, 3))))

    fragments = {str(f): f for f in (part(3) for _ in range(12)) if f.children}
    for text in ("(T (A) (B))", "(A a)", "(B b)", "(T (A))"):
        fragments.setdefault(text, read_tree(text, frontiers=True))
    grammar = TreeGrammar([(fragment, float(random.integers(1, 9))) for fragment in fragments.values()])
    known = approximate(grammar, "T", smoothed=False)
    weights, _, _ = list_weights(known, [to_tuples(fragment) for fragment, _ in grammar.fragments])
    forest_rules = restrict_grammar(known.chart, np.array([known.words[word] for word in words], np.int32))
    chart = fill_chart(forest_rules)
    # Unary fragments can be nested without limit, so the enumeration up to depth 5 gives a lower bound.
    bound = sum(weight(weights, d) for d in derivations(weights, "T", words, 5))
    got = exp(chart.log_weight(known.root, len(words)))
    assert got >= bound * (1 - 1e-9)
    assert (got > 0) == (bound > 0) or got < 1e-2


def test_unary_cycles_of_weight_1_are_rejected() -> None:
    with pytest.raises(GrammarError, match="spectral radius"):
        approximate(parse_grammar("(TOP (S)) ||| 1\n(S (NP)) ||| 1\n(NP (S)) ||| 1"), smoothed=False)


def test_rare_fragments_are_smoothed_by_the_prior() -> None:
    grammar = parse_grammar("(TOP (A (B b) (B c))) ||| 3\n(TOP (A)) ||| 1\n(A (B) (B)) ||| 1\n(B b) ||| 2")
    priors = dict.fromkeys(["TOP", "A", "B"], Prior(2.0, 0.25))
    known = approximate(grammar, priors=priors)
    weights, _, _ = list_weights(known, kept_fragments(grammar, True))
    # P_C: TOP → A 4/4, A → B B 4/4, B → b 5/8, B → c 3/8.
    assert weights["TOP", ("A",)] == pytest.approx((1 + 2 * 0.75) / 6)
    assert weights["TOP", ("A", ("B", "b"), ("B", "c"))] == pytest.approx((3 + 2 * 0.25**3 * 15 / 64) / 6)
    assert weights["B", "c"] == pytest.approx(2 * 3 / 8 / 4)


def test_the_uniform_base_covers_all_symbols() -> None:
    grammar = parse_grammar("(TOP (A (B b) (B c))) ||| 3\n(TOP (A)) ||| 1\n(A (B) (B)) ||| 1\n(B b) ||| 2")
    priors = dict.fromkeys(["TOP", "A", "B"], Prior(2.0, 0.25))
    known = approximate(grammar, priors=priors, base=UNIFORM)
    weights, _, _ = list_weights(known, kept_fragments(grammar, True))
    # P_M: one or two children, each one of TOP, A, B, b and c.
    one, two = 1 / 2 / 5, 1 / 2 / 5**2
    assert weights["TOP", ("A",)] == pytest.approx((1 + 2 * 0.75 * one) / 6)
    assert weights["TOP", ("A", ("B", "b"), ("B", "c"))] == pytest.approx((3 + 2 * 0.25**3 * one * two * one**2) / 6)
    assert weights["B", "c"] == pytest.approx(2 * one / 4)


def test_solved_strengths_give_the_number_of_fragments() -> None:
    for kinds, uses in ((3, 100.0), (50, 80.0), (1, 5.0)):
        strength = solve_strength(kinds, uses)
        assert strength * np.log1p(uses / strength) == pytest.approx(kinds, rel=1e-3)


def test_wide_fragments_must_be_binarized_before_parsing() -> None:
    grammar = binarize(
        parse_grammar("(TOP (A) (B) (C)) ||| 1\n(TOP (A) (B (X x) (Y y) (Z z)) (C)) ||| 1\n(A a) ||| 1\n(C c) ||| 1")
    )
    parser = Parser(approximate(grammar, smoothed=False))
    trees = {str(parser.parse(["a", "x", "y", "z", "c"], 0, method).tree) for method in METHODS}
    assert trees == {"(TOP (A a) (@TOP (B (X x) (@B (Y y) (Z z))) (C c)))"}
    with pytest.raises(InputError, match="binarize"):
        approximate(parse_grammar("(TOP (A) (B) (C)) ||| 1"))


def test_unknown_words_are_parsed_as_their_class() -> None:
    grammar = parse_grammar("(TOP (A) (B)) ||| 1\n(A the) ||| 3\n(B UNK-LC) ||| 1\n(B UNK) ||| 1\n(A UNK-LC-s) ||| 2")
    parser = Parser(approximate(grammar))
    assert str(parser.parse(["the", "striatum"], 0).tree) == "(TOP (A the) (B striatum))"
    assert str(parser.parse(["genes", "walked"], 0).tree) == "(TOP (A genes) (B walked))"
    assert str(parser.parse(["the", "%"], 0).tree) == "(TOP (A the) (B %))"
    assert str(parser.parse(["the", "("], 0).tree) == "(TOP (A the) (B -LRB-))"


def test_a_sentence_without_a_parse_gets_a_flat_tree() -> None:
    parser = Parser(approximate(parse_grammar("(TOP (A) (B)) ||| 1\n(A the) ||| 3\n(B dog) ||| 1")))
    for words in (["the", "dog", "the"], ["the", "unknown"]):
        for method in METHODS:
            parsed = parser.parse(words, 0, method)
            assert not parsed.found
            assert str(parsed.tree).startswith("(TOP (A the)")
    with pytest.raises(UsageError, match="draws"):
        Parser(approximate(parse_grammar(AMBIGUOUS)), draws=0).parse(SENTENCE, 0, "mpp")


def test_long_sentences_do_not_underflow() -> None:
    words = ["the"] * 150
    grammar = parse_grammar("(TOP (X)) ||| 1\n(X (X) (Y)) ||| 1000\n(X the) ||| 1\n(Y the) ||| 1\n(Y rare) ||| 99999")
    known = approximate(grammar)
    assert Parser(known).parse(words, 0).found
    assert build_forest(known, words).graph.chart.log_weight(known.root, len(words)) < -1500


def test_a_treebank_and_a_file_give_the_same_grammar(tmp_path: Path) -> None:
    trees = [read_tree("(TOP (S (NP (PRP it)) (VP (VBZ works))))"), read_tree("(TOP (S (VP (VBZ works))))")]
    grammar = to_context_free(TreeGrammar([(tree, 1.0) for tree in trees]))
    assert sorted((str(fragment), count) for fragment, count in grammar.fragments) == [
        ("(NP (PRP))", 1), ("(PRP it)", 1), ("(S (NP) (VP))", 1), ("(S (VP))", 1), ("(TOP (S))", 2),
        ("(VBZ works)", 2), ("(VP (VBZ))", 2),
    ]  # fmt: skip
    path = tmp_path / "grammar.txt.gz"
    lines = [f"{fragment} ||| {count:g} ||| 0.5\n" for fragment, count in grammar.fragments]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    again = read_grammar(str(path))
    assert {str(f): count for f, count in again.fragments} == {str(f): count for f, count in grammar.fragments}


def test_a_bar_can_be_a_word_of_a_fragment(tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("(NP (SYM ||| ) (NN x)) ||| 2 ||| 0.5\n(SYM |||) ||| 3\n(NP (NN)) ||| 1\n")
    found = {str(fragment): count for fragment, count in read_grammar(str(tmp_path / "grammar")).fragments}
    assert found == {"(NP (SYM |||) (NN x))": 2, "(SYM |||)": 3, "(NP (NN))": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(NP (NN)", "is not `fragment ||| count`"),
        ("(NP (NN)) ||| many", "is not `fragment ||| count`"),
        ("(NP (NN)) ||| -1", "is not `fragment ||| count`"),
        ("(NP (NN) ||| 1", "1 unclosed bracket"),
        ("(NN) ||| 1", "is a bare label"),
    ],
)
def test_an_invalid_grammar_line_is_reported(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "grammar"
    path.write_text(f"(NP (NN)) ||| 2\n{line}\n")
    with pytest.raises(InputError, match="line 2") as error:
        read_grammar(str(path))
    assert message in str(error.value)


def test_sentences_are_parsed_and_evaluated_on_the_command_line(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text(AMBIGUOUS.strip() + "\n(NP (A) (B) (N)) ||| 1\n(A a) ||| 1\n(B UNK-LC) ||| 1\n")
    (tmp_path / "text").write_text("she saw stars with ears\n\na striped stars saw ears\nwith with\n")
    ran = hierogram("parse", "grammar", "text")
    assert ran.code == 0
    first, empty, third, flat = ran.out.split("\n")[:4]
    assert first.startswith("(TOP (S (NP (PRP she)) (VP")
    assert empty == ""
    assert third.startswith("(TOP (S (NP (A a) (B striped) (N stars)) (VP")
    assert flat == "(TOP (P with) (P with))"
    assert "text, line 4: no parse: the output is a flat tree" in ran.err
    assert hierogram("parse", "grammar", "text", "-o", "trees").code == 0
    assert (tmp_path / "trees").read_text() == ran.out
    (tmp_path / "gold").write_text(first.replace("(TOP ", "( ") + "\n" + third + "\n" + flat + "\n")
    scored = hierogram("evaluate", "trees", "-r", "gold", "--of", "trees", "--json")
    assert json.loads(scored.out)["all"]["f1"] == 1
    assert "F1 1.0000" in hierogram("evaluate", "trees", "-r", "gold", "--of", "trees").out
    assert hierogram("parse", "grammar", "text", "-o", "-").out == ran.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gold", "grammar", "text", "trees"]
    assert hierogram("parse", "grammar", "text", "--method", "best").code == 2
    assert hierogram("parse", "gold", "text").code == 3
