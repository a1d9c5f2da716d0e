"""Parsers of the export formats, written from the decoders' documentation and not from the writers."""

import gzip
import math
import re
from pathlib import Path
from typing import NamedTuple

import zstandard


class Parsed(NamedTuple):
    """A parsed rule: words, numbered nonterminals, links, and values by name on a linear scale."""

    source: tuple[str | int, ...]
    target: tuple[str | int, ...]
    links: tuple[tuple[int, int], ...]
    values: dict[str, float]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def lines(path: Path) -> list[str]:
    text = content(path).decode()
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def links(text: str) -> tuple[tuple[int, int], ...]:
    found = tuple((int(i), int(j)) for i, j in (link.split("-") for link in text.split()))
    assert list(found) == sorted(found)
    return found


def bracketed(side: str, escape: str = "\\") -> tuple[str | int, ...]:
    """Parse a side. A bracketed word that is not like `[X,1]` is an error, as cdec reads it as a nonterminal."""
    symbols: list[str | int] = []
    for symbol in side.split(" "):
        match = re.fullmatch(r"\[(.*)\]", symbol)
        if match:
            name = re.fullmatch(r"X,([1-9])", match.group(1))
            assert name, symbol
            symbols.append(int(name.group(1)))
        else:
            assert symbol
            assert symbol != "|||"
            symbols.append(symbol[1:] if symbol.startswith(escape) else symbol)
    return tuple(symbols)


# Numbers that cdec's grammar lexer reads.
CDEC_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*([eE][-+]*[0-9]+)?)?")

CDEC_NAMES = {
    "EGivenF": "p_target_given_source",
    "FGivenE": "p_source_given_target",
    "LexEGivenF": "lex_target_given_source",
    "LexFGivenE": "lex_source_given_target",
    "Count": "count",
    "IsSingletonFE": "singleton",
    "IsSingletonF": "source_singleton",
    "IsTerminalsOnly": "terminals_only",
    "CountF": "source_count",
    "CountE": "target_count",
    "IsQuarter": "quarter",
    "IsHalf": "half",
    "IsRare": "rare",
    "Nonterminals": "nonterminals",
    "Scope": "scope",
    "WordsF": "source_words",
    "WordsE": "target_words",
    "IsOneWord": "one_word",
    "IsTwoWords": "two_words",
    "IsMinimal": "minimal",
}


def is_logarithm(name: str) -> bool:
    return name.startswith(("p_", "lex_")) or name.endswith("count")


def cdec(line: str) -> Parsed:
    left, source, target, features, *rest = line.split(" ||| ")
    values = {}
    for feature in features.split(" "):
        name, value = feature.split("=")
        assert CDEC_NUMBER.fullmatch(value), value
        values[CDEC_NAMES[name]] = 10 ** float(value) if is_logarithm(CDEC_NAMES[name]) else float(value)
        assert values[CDEC_NAMES[name]] != 0
    for name in CDEC_NAMES.values():
        if not is_logarithm(name):
            values.setdefault(name, 0)
    assert left == "[X]"
    return Parsed(bracketed(source), bracketed(target), links(rest[0]) if rest else (), values)


def moses(line: str, names: list[str]) -> Parsed:
    source, target, scores, alignment, counts, rest = line.split(" ||| ", 5)
    assert rest == "|||"
    found = links(alignment)
    left, right = source.split(" "), target.split(" ")
    assert left.pop() == "[X]"
    assert right.pop() == "[X]"
    number: dict[int, int] = {}
    parsed_source: list[str | int] = []
    for i, symbol in enumerate(left):
        if symbol == "[X][X]":
            number[i] = len(number) + 1
            linked_to = [j for k, j in found if k == i]
            assert [right[j] for j in linked_to] == [symbol]
        parsed_source.append(number[i] if i in number else unescape_moses(symbol))
    of_target = {j: number[i] for i, j in found if i in number}
    parsed_target: list[str | int] = []
    for j, symbol in enumerate(right):
        assert (symbol == "[X][X]") == (j in of_target)
        parsed_target.append(of_target[j] if j in of_target else unescape_moses(symbol))
    assert names[:4] == [
        f"{kind}_{of}" for of in ("source_given_target", "target_given_source") for kind in ("p", "lex")
    ]
    # Moses takes the logarithm of each score, so the file has e^value for features that are not logarithms.
    read = dict(zip(names, map(float, scores.split(" ")), strict=True))
    values = {name: value if is_logarithm(name) else math.log(value) for name, value in read.items()}
    for name, count in zip(("target_count", "source_count", "count"), map(float, counts.split(" ")), strict=True):
        assert math.isclose(count, values[name], rel_tol=1e-5)
    return Parsed(
        tuple(parsed_source),
        tuple(parsed_target),
        tuple(link for link in found if link[0] not in number),
        values,
    )


def unescape_moses(word: str) -> str:
    assert not set("|[]") & set(word)
    return word.replace("&#124;", "|").replace("&#91;", "[").replace("&#93;", "]")
