"""Pairs of many scripts and lengths, and tokens that look like markup."""

import random
from collections.abc import Iterable

from tests.storage.building import NewPair, make_pairs, pair

from hierogram.storage.store import Store

LONG = " ".join(f"word{n}" for n in range(200))
SCRIPTS = [
    pair("הבית הלבן גדול", "the white house is large", "0-2 1-1 2-4"),
    pair("البيت الأبيض", "the white house", "0-2 1-1"),
    pair("我 喜欢 红 房子", "i like the red house", "0-0 1-1 2-3 3-4"),
    pair("赤い 家 が 好き です", "i like the red house", "0-3 1-4 3-1"),
    pair(LONG, LONG.replace("word", "wort"), " ".join(f"{n}-{n}" for n in range(200))),
    pair("λόγος", "word", "0-0"),
]
"""Pairs in scripts from right to left or without spaces, a pair of the maximum length, and a Greek word."""

PIECES = [
    "<script>alert(1)</script>", "</script>", "<img/src=x/onerror=alert(1)>", "<svg/onload=alert(1)>", "</style>",
    "<!--", "-->", "]]>", "<![CDATA[", "&lt;", "&#x3c;", "&amp;", '"', "'", "`", '"onmouseover="alert(1)',
    "'onfocus='alert(1)", "javascript:alert(1)", "{{7*7}}", "{%raw%}", "${7*7}", "%00", "%3Cscript%3E", "\\",
    "\\u003c", "\u202e", "\u202d", "\u2066", "\u2067", "\u2069", "\u200f", "\u061c", "\x01", "\x07", "\x08",
    "\x1b[31m", "\x7f", "\u200b", "\ufeff", "\ufffd", "\uffff", "\u0301", "𝔘", "א", "ب", "中", "_", "%", "*", "?",
    "[X,1]", "[", "|||", "a" * 1_000, "'--", "';DROP/**/TABLE/**/rules;--", ":word", "$$", "=1+1",
]  # fmt: skip


def odd_tokens(number: int, seed: int) -> list[str]:
    """Return distinct tokens of up to 1 KiB without white space: up to three pieces, sometimes with a number."""
    draw = random.Random(seed)
    found: dict[str, None] = dict.fromkeys(PIECES)
    while len(found) < number:
        token = "".join(draw.choices(PIECES, k=draw.randint(1, 3))) + draw.choice(["", str(draw.randrange(1_000))])
        if len(token.encode()) <= 1_024:
            found[token] = None
    return list(found)[:number]


def odd_pairs(tokens: list[str], words: int = 6) -> list[NewPair]:
    """Return pairs with the same tokens on both sides, each linked to its copy."""
    rows = [tokens[first : first + words] for first in range(0, len(tokens), words)]
    return [pair(" ".join(row), " ".join(row), " ".join(f"{n}-{n}" for n in range(len(row)))) for row in rows]


def learn_from(store: Store, pairs: Iterable[NewPair]) -> None:
    from hierogram.daemon.learning.learning import learn

    batch = store.begin_ingest("<b>corpus</b>", "</td><script>alert(1)</script>", "jsonl")
    store.add_pairs(batch, make_pairs(pairs))
    store.finish_ingest(batch, "<script>alert(2)</script>")
    learn(store, sweeps=1)
