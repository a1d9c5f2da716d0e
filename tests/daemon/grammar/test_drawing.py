"""Pictures of derivations."""

import itertools
from collections import Counter
from xml.etree import ElementTree

import pytest

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.drawing import draw
from hierogram.samplers.grammar.rules import RuleUse

USES = [
    RuleUse("a [X,1] <b> [X,2]", "[X,2] x [X,1]", (0, 5), (0, 4), (1, 2)),
    RuleUse("c d", "y", (1, 3), (3, 4), ()),
    RuleUse("世界", "z\x01", (4, 5), (0, 1), ()),
]


def texts_of(picture: str) -> list[tuple[float, float, str]]:
    """Return texts with their positions; x from the left of the picture, y from the top of a tree."""
    found = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return [(float(text.attrib["x"]), float(text.attrib["y"]), text.text or "") for text in found]


def test_words_and_rules_are_on_both_sides_in_order() -> None:
    texts = texts_of(draw(USES))
    source, target = texts[: len(texts) // 2 + 1], texts[len(texts) // 2 + 1 :]
    assert Counter(text for *_, text in texts)["X3"] == 2
    for tree, leaves in ((source, ["a", "c d", "<b>", "世界"]), (target, ["z", "x", "y"])):
        assert [text for _, _, text in sorted(tree) if not text.startswith("X")] == leaves
        heights = {text: y for _, y, text in tree}
        assert heights["X1"] < heights["X2"] == heights["X3"]


def test_texts_of_one_level_do_not_overlap() -> None:
    use = RuleUse("[X,1] [X,2] [X,3]", "[X,1] [X,2] [X,3]", (0, 3), (0, 3), (1, 2, 3))
    words = [RuleUse(word, word, (k, k + 1), (k, k + 1), ()) for k, word in enumerate(("short", "l" * 40, "世" * 20))]
    picture = draw([use, *words])
    places = sorted((x, len(text) * (16 if "世" in text else 9)) for x, y, text in texts_of(picture)[:7] if y == 144)
    assert len(places) == 3
    assert all(x + w / 2 < x2 - w2 / 2 for (x, w), (x2, w2) in itertools.pairwise(places))


def test_a_deep_derivation_is_drawn() -> None:
    deep = [RuleUse("a [X,1]", "[X,1] x", (0, 1), (0, 1), (k + 1,)) for k in range(3_000)]
    assert draw([*deep, RuleUse("a", "x", (0, 1), (0, 1), ())]).count("<text") == 2 * 6_002


def test_a_pair_without_a_derivation_is_not_drawn() -> None:
    with pytest.raises(InputError, match="no derivation yet"):
        draw([])
