"""Translation from the definition, in plain Python: every derivation of a sentence, its words, features and score.

A rule is (source side, target side, features). Symbols are words as `str`, nonterminals as -1, -2, … in source order.
An n-gram model is a dict from n-grams to (log10 probability, log10 backoff weight).
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

Side = tuple
NGrams = dict[tuple[str, ...], tuple[float, float]]


class Rule(NamedTuple):
    source: Side
    target: Side
    features: tuple[float, ...]


class Node(NamedTuple):
    """A rule's number (or "pass", "glue", "start"), its span, and the nodes of its nonterminals."""

    rule: object
    start: int
    end: int
    children: tuple["Node", ...]


class Derivation(NamedTuple):
    root: Node
    words: tuple[str, ...]
    features: dict[object, float]
    score: float


class Model(NamedTuple):
    """Rules, weights by feature (number or name), n-grams or None and their order, and the maximum length of a span."""

    rules: Sequence[Rule]
    weights: dict[object, float]
    ngrams: NGrams | None
    order: int
    span: int


def compute_scope(source: Side) -> int:
    gaps = [isinstance(s, int) for s in ("", *source, "")]
    whole = [True, *gaps[1:-1], True]
    return sum(a and b for a, b in pairwise(whole) if len(source)) - (not source)


def derivations(model: Model, words: Sequence[str]) -> list[Derivation]:
    """Return all derivations of a sentence, best first."""
    known = {rule.source[0] for rule in model.rules if len(rule.source) == 1}
    memo: dict[tuple[int, int], list[Node]] = {}

    def cover(start: int, end: int) -> list[Node]:
        if (start, end) in memo:
            return memo[start, end]
        found: list[Node] = []
        if end - start <= model.span:
            for number, rule in enumerate(model.rules):
                for spans in matches(rule.source, start, end):
                    ways = product(*(cover(*span) for span in spans))
                    found += [Node(number, start, end, children) for children in ways]
        if end - start == 1 and words[start] not in known:
            found.append(Node("pass", start, end, ()))
        memo[start, end] = found
        return found

    def matches(source: Side, start: int, end: int) -> Iterator[list[tuple[int, int]]]:
        if not source:
            if start == end:
                yield []
            return
        if isinstance(source[0], int):
            for middle in range(start + 1, end + 1):
                for rest in matches(source[1:], middle, end):
                    yield [(start, middle), *rest]
        elif start < end and words[start] == source[0]:
            yield from matches(source[1:], start + 1, end)

    def whole(end: int) -> Iterator[Node]:
        for node in cover(0, end):
            yield Node("start", 0, end, (node,))
        for middle in range(1, end):
            for left in whole(middle):
                for right in cover(middle, end):
                    yield Node("glue", 0, end, (left, right))

    made = [derivation(model, node, words) for node in whole(len(words))]
    return sorted(made, key=lambda one: -one.score)


def derivation(model: Model, root: Node, words: Sequence[str]) -> Derivation:
    target = write_target(model, root, words)
    features = sum_features(model, root)
    features["words"] = len(target)
    features["lm"] = 0.0
    features["lm_unknown"] = 0
    if model.ngrams is not None:
        features["lm"] = log_probability(model.ngrams, model.order, target) * math.log(10)
        features["lm_unknown"] = sum((word,) not in model.ngrams for word in target)
    score = sum(model.weights.get(name, 0.0) * value for name, value in features.items())
    return Derivation(root, target, features, score)


def write_target(model: Model, node: Node, words: Sequence[str]) -> tuple[str, ...]:
    if node.rule == "pass":
        return (words[node.start],)
    parts = [write_target(model, child, words) for child in node.children]
    if isinstance(node.rule, str):
        return sum(parts, ())
    side = model.rules[node.rule].target
    return sum(((symbol,) if isinstance(symbol, str) else parts[-symbol - 1] for symbol in side), ())


def sum_features(model: Model, node: Node) -> dict[object, float]:
    total: dict[object, float] = dict.fromkeys(("rules", "glue", "unknown"), 0.0)
    if node.rule == "pass":
        total["unknown"] = 1
    elif node.rule == "glue":
        total["glue"] = 1
    elif node.rule != "start":
        total["rules"] = 1
        total |= dict(enumerate(model.rules[node.rule].features))
    for child in node.children:
        for name, value in sum_features(model, child).items():
            total[name] = total.get(name, 0.0) + value
    return total


def log_probability(ngrams: NGrams, order: int, words: Sequence[str]) -> float:
    """Return the log10 probability of a sentence, including its end."""
    history: tuple[str, ...] = ("<s>",)
    total = 0.0
    for word in (*(word if (word,) in ngrams else "<unk>" for word in words), "</s>"):
        total += backed_off(ngrams, history[len(history) - order + 1 :] if len(history) >= order else history, word)
        history = (*history, word)
    return total


def backed_off(ngrams: NGrams, history: tuple[str, ...], word: str) -> float:
    if (*history, word) in ngrams:
        return ngrams[(*history, word)][0]
    weight = ngrams[history][1] if history in ngrams else 0.0
    return weight + backed_off(ngrams, history[1:], word)
