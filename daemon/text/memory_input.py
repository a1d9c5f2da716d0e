"""Sentence pairs in memory as input: tuples, mappings with the members of JSON lines, or data frames."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from numbers import Integral, Real
from typing import Any, Protocol, runtime_checkable

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.formats import LINK_MEMBERS, OBJECTS, collect_lines, parse_known_links, parse_members
from hierogram.daemon.text.lines import LINES_PER_CHUNK
from hierogram.daemon.text.pipeline import Languages
from hierogram.daemon.text.rejections import WRONG_TYPE, RejectionError
from hierogram.daemon.text.validation import LineColumns
from hierogram.samplers.grammar.known_links import KnownLinks, Link


@runtime_checkable
class Frame(Protocol):
    """Table of pandas, polars, DuckDB, pyarrow or another library, as an Arrow C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream's capsule."""


PairLike = tuple[str, str] | tuple[str, str, "str | Iterable[Link] | None"] | Mapping[str, Any]
"""Tuple of source, target and optional links, or a mapping with the members of a JSON line.

Links are a Pharaoh line such as `0-0 1-2`, or pairs of positions such as (0, 0), (1, 2). A mapping has `source`,
`target` and optionally `alignment`, `id`, `fixed` and `forbidden`.
"""


class MemoryPairs:
    """Pairs in memory as a `PairInput`. Malformed pairs are rejected under their number, from 1."""

    format = OBJECTS
    bytes_total = None
    bytes_read = 0

    def __init__(self, pairs: "Iterable[PairLike] | Frame", origin: str = "python") -> None:
        self.origin = origin
        self._pairs: Iterable[Any] = _rows(pairs) if isinstance(pairs, Frame) else pairs

    def line_chunks(self, _languages: Languages | None) -> Iterator[LineColumns]:
        """Yield the pairs in chunks. The languages are ignored, because pairs in memory do not name theirs."""
        numbered = enumerate(self._pairs, 1)
        while chunk := list(islice(numbered, LINES_PER_CHUNK)):
            yield collect_lines(
                chunk,
                lambda pair: parse_members(_as_mapping(pair)),
                lambda pair: json.dumps(pair, ensure_ascii=False, default=str).encode(errors="replace"),
            )


def _as_mapping(pair: Any) -> Mapping[str, Any]:
    if isinstance(pair, Mapping):
        return {name: _as_json_links(value) if name in LINK_MEMBERS else value for name, value in pair.items()}
    if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
        raise RejectionError(WRONG_TYPE, "a pair must be (source, target), (source, target, links), or a mapping")
    source, target, *links = pair
    return {"source": source, "target": target, "alignment": _as_json_links(links[0]) if links else None}


def convert_corrections(corrections: KnownLinks) -> KnownLinks:
    """Convert known links, as Pharaoh lines or pairs, to sets of pairs. Raises `RejectionError`."""
    return KnownLinks(*(parse_known_links(_as_json_links(links), n) for n, links in corrections._asdict().items()))


def _as_json_links(links: Any) -> Any:
    """Convert a collection of links, such as an array, to JSON types. Other values are returned unchanged."""
    if isinstance(links, str) or not isinstance(links, Iterable):
        return links
    return [
        link if isinstance(link, str) or not isinstance(link, Iterable) else tuple(map(_as_int, link)) for link in links
    ]


def _as_int(number: Any) -> Any:
    if type(number) is int or isinstance(number, bool):
        return number
    if isinstance(number, Integral):
        return int(number)
    return int(float(number)) if isinstance(number, Real) and float(number).is_integer() else number


def _rows(frame: Frame) -> Iterator[dict[str, Any]]:
    # Import here because only data frames need the package.
    import nanoarrow

    try:
        stream = nanoarrow.ArrayStream(frame)
    except ImportError:
        # pandas needs pyarrow for an Arrow stream, so read the columns directly.
        named: Any = frame
        names = list(named.columns)
        rows = (zip(names, row, strict=True) for row in zip(*(named[name].tolist() for name in names), strict=True))
    else:
        names = [field.name for field in stream.schema.fields]
        # Do not iterate over chunks: nanoarrow 0.9 crashes if they contain string views, as in polars.
        rows = (row.items() for row in stream.iter_py())
    if missing := [name for name in ("source", "target") if name not in names]:
        raise InputError(f"a data frame of pairs must have the column {missing[0]}, got {', '.join(names)}")
    for row in rows:
        # Omit missing values, which are None or NaN. Only NaN differs from itself.
        yield {name: value for name, value in row if value is not None and value == value}
