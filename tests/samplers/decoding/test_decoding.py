"""The decoder compared with enumeration: every derivation, its features and its score."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.reference.decoding.derivations import Derivation, Node, derivations
from tests.samplers.decoding.small import Example, make_decoder, random_example, to_sentence

from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, DecodingChart, cell_span, make_chart
from hierogram.samplers.decoding.decoder import SentenceDecoder
from hierogram.samplers.decoding.grammar import COUNTED_FEATURES
from hierogram.samplers.decoding.kbest import Outputs

MANY = 100_000
NAMES = [0, 1, *COUNTED_FEATURES]
Found = list[tuple[Node, tuple[str, ...], float, np.ndarray]]


def tree(out: Outputs, words: int, decoder: SentenceDecoder, row: int) -> Node:
    """Return a derivation in the reference's format."""
    uses = out.uses[out.use_start[row] : out.use_start[row + 1]]
    below: dict[int, dict[int, int]] = {}
    for k, use in enumerate(uses):
        below.setdefault(int(use["parent"]), {})[int(use["slot"])] = k
    rules = decoder.grammar.rules

    def node(number: int) -> Node:
        rule = int(uses[number]["rule"])
        children = tuple(node(child) for _, child in sorted(below.get(number, {}).items()))
        if rule == GOAL:
            return children[0]
        named = {GLUE_START: "start", GLUE_NEXT: "glue"}.get(rule, "pass")
        name = int(decoder.grammar.number[rule]) if 0 <= rule < rules else named
        return Node(name, *cell_span(words, int(uses[number]["cell"])), children)

    return node(0)


def found_by(example: Example, best: int, pops: int = 0, *, distinct: bool = False) -> Found:
    sentence, words = to_sentence(example)
    decoder = make_decoder(example, pops)
    out = decoder.decode(sentence, best, distinct=distinct)
    spelled = [
        tuple(words[w] for w in out.words[out.word_start[k] : out.word_start[k + 1]]) for k in range(len(out.scores))
    ]
    return [
        (tree(out, len(sentence.words), decoder, k), spelled[k], float(out.scores[k]), out.features[k])
        for k in range(len(out.scores))
    ]


def check(example: Example, found: Found, expected: list[Derivation]) -> None:
    """Check that results are distinct derivations of the definition, best first, with its words, features, scores."""
    known = {one.root: one for one in expected}
    weights = np.array([example.model.weights[name] for name in NAMES])
    for root, words, score, features in found:
        there = known[root]
        assert words == there.words
        np.testing.assert_allclose(features, [there.features.get(name, 0.0) for name in NAMES], atol=1e-9, rtol=0)
        assert abs(score - there.score) < 1e-9
        assert abs(features @ weights - score) < 1e-9
    assert len({root for root, *_ in found}) == len(found)
    scores = [score for _, _, score, _ in found]
    assert scores == sorted(scores, reverse=True)


IN_CAMPAIGN = (0, 1, 2, 5, 6, 7, 8, 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("with_model", "block"),
    [
        *((True, 3), (True, 4), (False, 0)),
        *(pytest.param(True, block, marks=pytest.mark.campaign) for block in IN_CAMPAIGN),
        pytest.param(False, 1, marks=pytest.mark.campaign),
    ],
)
def test_all_derivations_match_the_definition(with_model: bool, block: int) -> None:
    for seed in range(50 * block, 50 * (block + 1)):
        example = random_example(random.Random(seed), with_model=with_model)
        expected = derivations(example.model, example.sentence)
        found = found_by(example, MANY)
        assert len(found) == len(expected) < MANY
        check(example, found, expected)
        few = found_by(example, 7)
        np.testing.assert_allclose([f[2] for f in few], [e.score for e in expected[:7]], atol=1e-9, rtol=0)


def test_examples_contain_every_special_case() -> None:
    """Checks the examples with a language model that run outside campaigns."""
    seen = dict.fromkeys(("arity 3", "adjacent", "unknown", "empty", "glue", "long"), 0)
    for seed in range(150, 250):
        example = random_example(random.Random(seed))
        roots = [one.root for one in derivations(example.model, example.sentence)]
        used = {rule for root in roots for rule in list_rules(root)}
        rules = [example.model.rules[rule] for rule in used if isinstance(rule, int)]
        seen["arity 3"] += any(sum(isinstance(s, int) for s in rule.source) >= 3 for rule in rules)
        seen["adjacent"] += any(
            isinstance(a, int) and isinstance(b, int)
            for rule in rules
            for a, b in zip(rule.source, rule.source[1:], strict=False)
        )
        seen["empty"] += any(not rule.target for rule in rules)
        seen["unknown"] += "odd" in example.sentence and "pass" in used
        seen["glue"] += "glue" in used
        seen["long"] += len(roots) > 200
    assert all(number >= 4 for number in seen.values()), seen


def list_rules(node: Node) -> set[object]:
    return {node.rule, *(rule for child in node.children for rule in list_rules(child))}


@pytest.mark.slow
def test_results_with_few_pops_are_valid_but_may_not_be_best() -> None:
    worse = 0
    for seed in range(500, 590):
        example = random_example(random.Random(seed))
        expected = derivations(example.model, example.sentence)
        found = found_by(example, 20, pops=2)
        assert found
        check(example, found, expected)
        worse += found[0][2] < expected[0].score - 1e-9
    assert 0 < worse < 40


@pytest.mark.slow
def test_each_distinct_translation_has_its_best_derivation() -> None:
    fewer = 0
    for seed in range(600, 680):
        example = random_example(random.Random(seed))
        best: dict[tuple[str, ...], float] = {}
        derived = derivations(example.model, example.sentence)
        for one in derived:
            best.setdefault(one.words, one.score)
        for wanted in (5, MANY):
            found = found_by(example, wanted, distinct=True)
            assert len({words for _, words, _, _ in found}) == len(found) == min(wanted, len(best))
            expected = list(best.values())[:wanted]
            np.testing.assert_allclose([score for _, _, score, _ in found], expected, atol=1e-9, rtol=0)
            check(example, found, derived)
        fewer += len(best) < len(derived)
    assert fewer > 10


@pytest.mark.slow
def test_a_search_for_distinct_translations_returns_the_best_ones_found_within_the_maximum_number_of_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = random_example(random.Random(19))
    # Eight words have more derivations than the entries that are allocated at first.
    example = example._replace(sentence=[*example.sentence, "a", "odd"])
    whole = found_by(example, MANY, distinct=True)
    monkeypatch.setattr("hierogram.samplers.decoding.kbest.MAX_ENTRIES", 1)
    some = found_by(example, MANY, distinct=True)
    assert 0 < len(some) < len(whole)
    assert all(a[:3] == b[:3] for a, b in zip(some, whole, strict=False))


@pytest.mark.slow
def test_decoder_pools_that_are_too_small_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    example = random_example(random.Random(19))
    whole = found_by(example, MANY)
    monkeypatch.setattr("hierogram.samplers.decoding.decoder._MIN_ITEMS", 1)
    grown = found_by(example, MANY)
    assert len(grown) == len(whole) > 100
    assert all(a[:3] == b[:3] for a, b in zip(grown, whole, strict=True))


def test_translations_do_not_depend_on_the_number_of_threads() -> None:
    example = random_example(random.Random(19))
    sentences = []
    for seed in range(40):
        words = [random.Random(seed).choice(["a", "b", "odd"]) for _ in range(1 + seed % 6)]
        sentences.append(to_sentence(example._replace(sentence=words))[0])
    decoder = make_decoder(example, 5)
    one = [decoder.decode(sentence, 10) for sentence in sentences]
    with ThreadPoolExecutor(3) as pool:
        three = list(pool.map(lambda sentence: decoder.decode(sentence, 10), sentences))
    for a, b in zip(one, three, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_consecutive_threads_share_one_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[DecodingChart] = []

    def make(words: int, order: int, size: int, pops: int) -> DecodingChart:
        made.append(make_chart(words, order, size, pops))
        return made[-1]

    monkeypatch.setattr("hierogram.samplers.decoding.decoder.make_chart", make)
    example = random_example(random.Random(19))
    decoder = make_decoder(example, 5)
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(decoder.decode, to_sentence(example)[0]).result()
    assert len(made) == 1
