"""Bible alignments in Scripture Burrito format: tables of tokens, and links of their ids in JSON.

A table is tab-separated with a header: `id`, `text`, and optionally `source_verse` and `exclude`. The first eight
digits of a token's id are book, chapter and verse. In source texts, a letter precedes the digits.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from hierogram.daemon.exceptions import InputError
from hierogram.samplers.grammar.known_links import Link

BURRITO = "burrito"
ROLES = ("source", "target")
_VERSE_DIGITS = 8
_WORD_DIGITS = 11
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TOKEN_ID = re.compile(r"[a-z]?[0-9]{8,13}")


@dataclass(frozen=True)
class TokenText:
    """Tokens of one side and their ids, by verse. `positions` has verse and position of each token by id."""

    name: str
    ids: dict[str, list[str]]
    tokens: dict[str, list[str]]
    positions: dict[str, tuple[str, int]]

    def find_token(self, token_id: str) -> tuple[str, int] | None:
        """Return verse and position of a token, or of the word of an unknown part. None if unknown."""
        position = self.positions.get(token_id)
        if position is None and len(token_id) > _WORD_DIGITS:
            return self.positions.get(token_id[:_WORD_DIGITS])
        return position


def read_token_text(path: str) -> TokenText:
    """Read a token table without the tokens that the column `exclude` marks with `y`. Raises `InputError`."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    name = Path(path).stem.removeprefix("nt_").removeprefix("ot_")
    columns = {column: k for k, column in enumerate(lines[0].split("\t"))} if lines else {}
    if not columns.keys() >= {"id", "text"}:
        raise InputError(f"{path}, line 1: expected the columns id and text, got {', '.join(columns) or 'no columns'}")
    verse_column, exclude = columns.get("source_verse"), columns.get("exclude")
    text = TokenText(name, defaultdict(list), defaultdict(list), {})
    for line, row in enumerate(lines[1:], 2):
        cells = row.split("\t")
        if len(cells) < len(columns):
            raise InputError(f"{path}, line {line}: expected {len(columns)} columns as in the header, got {len(cells)}")
        token_id = cells[columns["id"]]
        if not _TOKEN_ID.fullmatch(token_id):
            expected = "expected 8 to 13 digits, optionally after a letter"
            raise InputError(f"{path}, line {line}: id {token_id!r}: {expected}")
        if exclude is not None and cells[exclude] == "y":
            continue
        verse = token_id.lstrip(_LETTERS)[:_VERSE_DIGITS] if verse_column is None else cells[verse_column]
        text.positions[token_id] = verse, len(text.ids[verse])
        text.ids[verse].append(token_id)
        text.tokens[verse].append(cells[columns["text"]])
    return text


def read_links(path: str, source: TokenText, target: TokenText) -> dict[str, set[Link]]:
    """Read links of positions by verse. A record links all its tokens of a verse. Raises `InputError`."""
    try:
        records = json.loads(Path(path).read_text(encoding="utf-8-sig"))["records"]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not a Scripture Burrito alignment: records not found") from error
    if not isinstance(records, list):
        raise InputError(f"{path}: not a Scripture Burrito alignment: records must be a list")
    links: dict[str, set[Link]] = defaultdict(set)
    for record_number, record in enumerate(records, 1):
        if not (isinstance(record, dict) and all(isinstance(record.get(role), list) for role in ROLES)):
            raise InputError(f"{path}, record {record_number}: expected the lists source and target")
        sides = zip((source, target), ROLES, strict=True)
        positions = (filter(None, map(text.find_token, map(str, record[role]))) for text, role in sides)
        for (verse, i), (target_verse, j) in product(*positions):
            if verse == target_verse:
                links[verse].add((i, j))
    return links


def burrito_pairs(alignment: str, source: str, target: str) -> Iterator[dict[str, object]]:
    """Yield the common verses as pairs with links, with the verse as id. Raises `InputError`."""
    texts = read_token_text(source), read_token_text(target)
    links = read_links(alignment, *texts)
    for verse in common_verses(*texts):
        sides = (" ".join("\u00a0".join(token.split()) for token in text.tokens[verse]) for text in texts)
        yield {"id": verse, "alignment": sorted(links.get(verse, ())), **dict(zip(ROLES, sides, strict=True))}


def common_verses(source: TokenText, target: TokenText) -> list[str]:
    """Return the verses that both texts contain, sorted."""
    return sorted(source.tokens.keys() & target.tokens.keys())


def make_burrito(source: TokenText, target: TokenText, links: Mapping[str, Mapping[Link, float]]) -> dict[str, Any]:
    """Return a JSON object, given link probabilities by verse. Connected links form a record."""
    records = []
    for verse in common_verses(source, target):
        verse_links = links.get(verse, {})
        for number, (sources, targets) in enumerate(_connected_components(verse_links), 1):
            probability = round(mean(p for (i, _), p in verse_links.items() if i in sources), 4)
            meta = {"id": f"{verse}.{number:03d}", "process": "automatic", "status": "created"}
            record = {
                "source": [source.ids[verse][i] for i in sources],
                "target": [target.ids[verse][j] for j in targets],
                "meta": {**meta, "probability": probability},
            }
            records.append(record)
    return {
        "documents": [{"docid": source.name, "scheme": "BCVWP"}, {"docid": target.name, "scheme": "BCVW"}],
        "meta": {"conformsTo": "0.3", "creator": "hierogram"},
        "roles": list(ROLES),
        "type": "translation",
        "records": records,
    }


def _connected_components(links: Iterable[Link]) -> list[tuple[list[int], list[int]]]:
    groups: list[tuple[set[int], set[int]]] = []
    for i, j in sorted(links):
        joined = [group for group in groups if i in group[0] or j in group[1]]
        groups = [group for group in groups if group not in joined]
        groups.append(({i}.union(*(sources for sources, _ in joined)), {j}.union(*(targets for _, targets in joined))))
    return sorted((sorted(sources), sorted(targets)) for sources, targets in groups)
