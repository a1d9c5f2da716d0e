"""Input formats: a round trip preserves pairs, and every line is accepted or rejected exactly once."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.building import NewPair, list_rows

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.formats import (
    detect_format,
    parse_json_object,
    parse_lines,
    parse_parallel,
    parse_pipes,
    parse_tabs,
)
from hierogram.daemon.text.validation import DuplicateCounter, LineColumns, validate
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.pairs import RejectedLine, join_pairs

MAX_TOKENS = 8

TOKEN = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\r\0"), min_size=1, max_size=4).filter(
    lambda token: "|||" not in token
)
SIDE = st.lists(TOKEN, min_size=1, max_size=MAX_TOKENS)


@st.composite
def pair(draw: st.DrawFn) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    source, target = draw(SIDE), draw(SIDE)
    link = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    return source, target, sorted(draw(st.sets(link, max_size=6)))


PAIRS = st.lists(pair(), min_size=1, max_size=5)
BLANK = st.lists(st.sampled_from([" ", "  ", "\t"]), max_size=2).map("".join)
LINE = st.one_of(
    st.binary(max_size=20),
    st.lists(st.sampled_from(["a", "|||", " ", "  ", "\t", "0-0", "1-1", "b c", "\r", "\0", "{}", '{"source": "a"']))
    .map("".join)
    .map(str.encode),
    st.fixed_dictionaries(
        {},
        optional={
            "source": st.one_of(st.text(max_size=4), st.none()),
            "target": st.one_of(st.text(max_size=4), st.just("a b")),
            "alignment": st.one_of(
                st.just("0-0"), st.text(max_size=4), st.lists(st.one_of(st.lists(st.integers(-1, 2)), st.text()))
            ),
            "id": st.one_of(st.none(), st.text(max_size=2), st.integers(), st.floats(), st.booleans()),
            "fixed": st.one_of(st.just("0-0"), st.text(max_size=4), st.lists(st.lists(st.integers(-1, 2)))),
        },
    ).map(lambda value: json.dumps(value).encode()),
    st.just(b"[" * 100_000),
    st.just(b'{"source": "\\ud800", "target": "a", "alignment": ""}'),
    st.just(b'{"source": "a", "target": "a", "alignment": "", "id": ' + b"9" * 5000 + b"}"),
).filter(lambda line: b"\n" not in line)


def validate_all(fields: Iterator[LineColumns]) -> tuple[list[NewPair], list[RejectedLine]]:
    pairs, rejected, repeats = [], [], DuplicateCounter()
    for chunk in fields:
        more, wrong = validate(chunk, MAX_TOKENS, repeats)
        pairs += list_rows(more)
        rejected += wrong
    return pairs, rejected


def chunks_of_two(lines: list[bytes]) -> Iterator[list[bytes]]:
    return (lines[k : k + 2] for k in range(0, len(lines), 2))


def parse_links(pair: NewPair) -> list[tuple[int, ...]]:
    assert pair.alignment is not None
    return [tuple(map(int, link.split("-"))) for link in pair.alignment.split()]


def check_round_trip(
    fields: Iterator[LineColumns], given: list[tuple[list[str], list[str], list[tuple[int, int]]]]
) -> list[NewPair]:
    """Check that parsed lines are the given pairs, and return them."""
    found, rejected = validate_all(fields)
    assert rejected == []
    assert [(p.source, p.target, parse_links(p)) for p in found] == [(" ".join(s), " ".join(t), a) for s, t, a in given]
    assert [(p.source_length, p.target_length) for p in found] == [(len(s), len(t)) for s, t, _ in given]
    assert [p.line for p in found] == list(range(1, len(given) + 1))
    return found


@pytest.mark.slow
@given(PAIRS, BLANK)
def test_pairs_survive_a_round_trip_through_parallel_files(given: list, blank: str) -> None:
    columns = (
        [(blank + f" {blank}".join(source)).encode() for source, _, _ in given],
        [("\t".join(target) + blank).encode() for _, target, _ in given],
        [" ".join(f"{i}-{j}" for i, j in links).encode() for _, _, links in given],
    )
    check_round_trip(parse_parallel(*map(chunks_of_two, columns)), given)


@pytest.mark.slow
@given(PAIRS, BLANK)
def test_pairs_survive_a_round_trip_through_pipes(given: list, blank: str) -> None:
    lines = [
        f"{blank}{' '.join(source)} |||{blank} {' '.join(target)} ||| {' '.join(f'{i}-{j}' for i, j in links)}{blank}"
        for source, target, links in given
    ]
    check_round_trip(parse_lines(chunks_of_two([line.encode() for line in lines]), parse_pipes), given)


@pytest.mark.slow
@given(PAIRS, BLANK.map(lambda blank: blank.replace("\t", " ")))
def test_pairs_survive_a_round_trip_through_tabs(given: list, blank: str) -> None:
    lines = [
        f"{blank}{f' {blank}'.join(source)}\t{' '.join(target)}{blank}\t{' '.join(f'{i}-{j}' for i, j in links)}"
        for source, target, links in given
    ]
    check_round_trip(parse_lines(chunks_of_two([line.encode() for line in lines]), parse_tabs), given)


@pytest.mark.slow
@given(PAIRS, st.booleans(), st.booleans())
def test_pairs_survive_a_round_trip_through_json_lines(given: list, as_list: bool, with_id: bool) -> None:
    lines = []
    for number, (source, target, links) in enumerate(given):
        alignment = links if as_list else " ".join(f"{i}-{j}" for i, j in reversed(links))
        value = {"source": " ".join(source), "target": " ".join(target), "alignment": alignment, "more": None}
        lines.append(json.dumps({**value, "id": f"id {number}"} if with_id else value).encode())
    pairs = check_round_trip(parse_lines(chunks_of_two(lines), parse_json_object), given)
    assert [p.external_id for p in pairs] == [f"id {k}" if with_id else None for k in range(len(given))]


@given(st.lists(LINE, max_size=6))
def test_every_line_is_accepted_or_rejected_once(lines: list[bytes]) -> None:
    for take_apart in (parse_pipes, parse_tabs, parse_json_object):
        pairs, rejected = validate_all(parse_lines(chunks_of_two(lines), take_apart))
        assert sorted([p.line for p in pairs] + [r.line for r in rejected]) == list(range(1, len(lines) + 1))
        assert all(r.content == lines[r.line - 1][:4096] for r in rejected)


@pytest.mark.slow
@given(st.lists(LINE, max_size=6), st.lists(LINE, max_size=6), st.lists(LINE, max_size=6))
def test_every_line_of_parallel_files_is_accepted_or_rejected_once(a: list, b: list, c: list) -> None:
    pairs, rejected = validate_all(parse_parallel(chunks_of_two(a), chunks_of_two(b), chunks_of_two(c)))
    most = max(map(len, (a, b, c)))
    assert sorted([p.line for p in pairs] + [r.line for r in rejected]) == list(range(1, most + 1))
    shortest = min(map(len, (a, b, c)))
    assert [r.line for r in rejected if r.reason == "length-mismatch"] == list(range(shortest + 1, most + 1))


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        (b"a ||| b ||| 0-0 ||| x", "field-count", "got 4 fields"),
        (b"a ||| ||| b ||| 0-0", "field-count", "got 4 fields"),
        (b"a b 0-0", "field-count", "got 1 field"),
        (b"a||| b", "field-count", "'a|||': `|||` must have a space on each side"),
        (b"a ||| b|||0-0", "field-count", "'b|||0-0': `|||` must have a space on each side"),
        (b"a ||| b |||0-0", "field-count", "'|||0-0': `|||` must have a space on each side"),
        (b"a|||b|||0-0", "field-count", "'a|||b|||0-0': `|||` must have a space on each side"),
        (b"", "empty-line", "empty"),
        (b" \t ", "empty-line", "empty"),
        (b"||| b ||| 0-0", "empty-side", "source side has no tokens"),
        (b"a |||  ||| 0-0", "empty-side", "target side has no tokens"),
        (b"a b ||| c ||| 0-0 2-0", "link-out-of-range", "'2-0'"),
        (b"a b ||| c ||| 0-0 1-1", "link-out-of-range", "target side 1"),
        (b"a b ||| c ||| 0-0 1", "malformed-link", "'1' is not a link"),
        (b"a b ||| c ||| 0-0 1p0", "malformed-link", "'1p0' is not a link"),
        (b"a b ||| c ||| 0--0", "malformed-link", "'0--0' is not a link"),
        ("a b ||| c ||| ٠-0".encode(), "malformed-link", "'٠-0' is not a link"),
        (b"a \xff ||| c ||| 0-0", "invalid-utf8", "byte 0xff at offset 2"),
        (b"a \xed\xa0\x80 ||| c ||| 0-0", "invalid-utf8", "byte 0xed"),
        (b"a\0 ||| c ||| 0-0", "nul-byte", "offset 1"),
        (b"a\rb ||| c ||| 0-0", "line-break", "line break"),
        (b"1 2 3 4 5 6 7 8 9 ||| c ||| 0-0", "too-long", "9 tokens, the limit of this store is 8"),
    ],
)  # fmt: skip
def test_errors_in_delimited_lines_are_reported(line: bytes, reason: str, message: str) -> None:
    good = b"a ||| b ||| 0-0"
    pairs, [rejected] = validate_all(parse_lines(iter([[good, line, good]]), parse_pipes))
    assert [p.line for p in pairs] == [1, 3]
    assert (rejected.line, rejected.reason) == (2, reason)
    assert message in rejected.message


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ('{"source": "a"', "malformed-json", "not JSON"),
        ('["a", "b", "0-0"]', "malformed-json", "not a JSON object"),
        ('{"source": "a", "alignment": ""}', "missing-field", "'target'"),
        ('{"source": ["a"], "target": "b", "alignment": ""}', "wrong-type", "'source' must be a string, got list"),
        ('{"source": "a", "target": null}', "wrong-type", "'target' must be a string, got NoneType"),
        ('{"source": "a", "target": "b", "alignment": [[0]]}', "malformed-link", "entry 0"),
        ('{"source": "a", "target": "b", "alignment": [[0, 0], [0, -1]]}', "malformed-link", "entry 1"),
        ('{"source": "a", "target": "b", "alignment": [[true, false]]}', "malformed-link", "entry 0"),
        ('{"source": "a", "target": "b", "alignment": [[0, 1]]}', "link-out-of-range", "'0-1'"),
        ('{"source": "a\\nb", "target": "b", "alignment": ""}', "line-break", "'source'"),
        ('{"source": "a", "target": "b\\u0000", "alignment": ""}', "nul-byte", "target"),
        ('{"source": "a", "target": "\\udc00", "alignment": ""}', "wrong-type", "surrogate"),
        ('{"source": "a", "target": "b", "alignment": "", "id": 1.5}', "wrong-type", "'id' must be a string, got"),
        ('{"source": "a", "target": "b", "alignment": "", "id": ""}', "wrong-type", "'id' is empty"),
        ('{"source": "a", "target": "b", "alignment": "", "id": "\\u0000"}', "nul-byte", "'id'"),
        ('{"source": "a", "target": "b", "fixed": [[0, 1]]}', "link-out-of-range", "0-1"),
        ('{"source": "a", "target": "b", "fixed": [[0, 0]], "forbidden": "0-0"}', "link-out-of-range", "both fixed"),
        ('{"source": "a", "target": "b", "forbidden": [[0, 0, 0]]}', "malformed-link", "forbidden: entry 0"),
        ('{"source": "a", "target": "b", "forbidden": "0:0"}', "malformed-link", "forbidden: '0:0' is not a link"),
        ('{"source": "a", "target": "b", "fixed": 3}', "wrong-type", "'fixed' must be a string, got int"),
        ("", "empty-line", "empty"),
    ],
)
def test_errors_in_json_lines_are_reported(line: str, reason: str, message: str) -> None:
    pairs, [rejected] = validate_all(parse_lines(iter([[line.encode()]]), parse_json_object))
    assert pairs == []
    assert (rejected.line, rejected.reason) == (1, reason)
    assert message in rejected.message


def test_fixed_and_forbidden_links_are_kept_with_their_pairs() -> None:
    lines = [
        b'{"source": "a b", "target": "c d"}',
        b'{"source": "a b", "target": "c"}, broken',
        b'{"source": "a b", "target": "c d", "fixed": [[0, 1]], "forbidden": "1-1 0-0"}',
        b'{"source": "a b", "target": "c d", "fixed": [], "forbidden": null}',
        b'{"source": "", "target": "c d", "fixed": [[0, 0]]}',
        b'{"source": "b", "target": "c d", "alignment": "0-0", "fixed": "0-1"}',
    ]
    parts = [
        validate(fields, MAX_TOKENS, DuplicateCounter())[0]
        for fields in parse_lines(chunks_of_two(lines), parse_json_object)
    ]
    pairs = join_pairs(parts)
    assert pairs.human_links == {
        1: KnownLinks(frozenset({(0, 1)}), frozenset({(0, 0), (1, 1)})),
        3: KnownLinks(frozenset({(0, 1)})),
    }
    assert pairs.at([3, 0]).human_links == {0: KnownLinks(frozenset({(0, 1)}))}


def test_longer_runs_of_bars_are_tokens() -> None:
    [found], rejected = validate_all(parse_lines(iter([[b"a |||| ||| b ||||| ||| 1-1"]]), parse_pipes))
    assert (found.source, found.target, rejected) == ("a ||||", "b |||||", [])


def test_a_long_line_is_rejected() -> None:
    line = b"a " * (1 << 20)
    for take_apart in (parse_pipes, parse_json_object):
        pairs, [rejected] = validate_all(parse_lines(iter([[line]]), take_apart))
        assert (pairs, rejected.reason, rejected.content) == ([], "line-too-long", line[:4096])
    pairs, [rejected] = validate_all(parse_parallel(iter([[line]]), iter([[b"a"]]), iter([[b"0-0"]])))
    assert (pairs, rejected.reason) == ([], "line-too-long")


def test_repeats_are_numbered_within_an_input() -> None:
    lines = [b"a ||| b ||| 0-0", b"a ||| b ||| ", b"a ||| b ||| 0-0", b" a ||| b ||| 0-0 0-0"]
    pairs, _ = validate_all(parse_lines(chunks_of_two(lines), parse_pipes))
    assert [p.occurrence for p in pairs] == [0, 0, 1, 2]


def test_unicode_spaces_are_part_of_tokens() -> None:
    line = "a\u00a0b \u3000 ||| c\u2028d ||| 1-0".encode()
    [found], rejected = validate_all(parse_lines(iter([[line]]), parse_pipes))
    assert rejected == []
    assert (found.source, found.source_length, found.target) == ("a\u00a0b \u3000", 2, "c\u2028d")


def test_formats_are_recognized_by_their_first_line() -> None:
    assert detect_format([b"", b' {"source": 1'], "f") == "jsonl"
    assert detect_format([b"a ||| b", b"{}"], "f") == "pipes"
    assert detect_format([b"a b\tc"], "f") == detect_format([b"a\tc\t0-0"], "f") == "tsv"


def test_text_in_no_known_format_is_refused() -> None:
    with pytest.raises(InputError, match="f, line 1: expected JSON"):
        detect_format([b"a b c"], "f")
