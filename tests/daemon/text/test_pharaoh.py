"""Pharaoh lines: checking many lines at once agrees with checking each."""

from hypothesis import given
from hypothesis import strategies as st

from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.validation import are_canonical, canonical_alignment

LINK = st.tuples(st.integers(0, 15), st.integers(0, 15))
LOOSE = st.lists(st.sampled_from(["0", "1", "7", "12", "-", " ", "  ", "\t", "0-0", "3-11 ", "x", "²"])).map("".join)
RAW = st.one_of(
    st.lists(LINK, max_size=6).map(lambda links: " ".join(f"{i}-{j}" for i, j in links).encode()),
    st.lists(LINK, max_size=6, unique=True).map(lambda links: " ".join(f"{i}-{j}" for i, j in sorted(links)).encode()),
    LOOSE.map(str.encode),
    st.binary(max_size=12).filter(lambda line: b"\n" not in line),
    st.just(b"100-2 999-1 1000-3 00000000000000000000001-1 99999999999999999999-0"),
)
LENGTH = st.one_of(st.integers(1, 16), st.just(1200))


def canonical_or_none(line: bytes, source_length: int, target_length: int) -> str | None:
    try:
        return canonical_alignment(line, source_length, target_length)
    except RejectionError:
        return None


@given(st.lists(st.tuples(RAW, LENGTH, LENGTH), min_size=1, max_size=8))
def test_lines_called_canonical_are_their_own_canonical_form(rows: list[tuple[bytes, int, int]]) -> None:
    lines, source_lengths, target_lengths = (list(column) for column in zip(*rows, strict=True))
    for found, (line, n, m) in zip(are_canonical(lines, source_lengths, target_lengths), rows, strict=True):
        canonical = canonical_or_none(line, n, m)
        is_canonical = canonical is not None and canonical.encode() == line
        small = all(len(number) < 4 for link in line.split() for number in link.split(b"-"))
        assert found == (is_canonical and small)


@given(st.lists(LINK))
def test_the_canonical_form_of_a_line_has_the_same_links(links: list[tuple[int, int]]) -> None:
    line = "\t".join(f"0{i}-{j} " for i, j in links).encode()
    canonical = canonical_alignment(line, 16, 16)
    assert [tuple(map(int, link.split("-"))) for link in canonical.split()] == sorted(set(links))
