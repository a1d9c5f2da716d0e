"""Columns of new pairs, and identities of pairs, which are the same in every version."""

from tests.storage.building import NewPair, list_rows, make_pairs, pair

from hierogram.storage.pairs.identities import pair_identities
from hierogram.storage.records.pairs import join_pairs

ROWS = [
    pair("la maison", "the house", "0-0 1-1", line=1),
    pair("la maison", "the house", "0-0 1-1", line=2, occurrence=1),
    NewPair("la maison", "the house", None, 2, 2, 3),
    pair("été", "summer", "", line=4),
    NewPair("été", "summer", None, 1, 1, 5, "v1", 7),
]


def test_identities_equal_those_of_existing_stores() -> None:
    assert [identity.hex() for identity in pair_identities("bible", make_pairs(ROWS))] == [
        "1fca01438240fdd4842cfe38d4a0a5c7",
        "73e862eb47dea74efd462c6df9ab8f26",
        "ec60e984524a80c0488d12501eb589a6",
        "b4071d18de81c745d788f8d0700dc7fe",
        "62f878c7ba07413a878677fed24d29e3",
    ]


def test_pairs_are_selected_by_index() -> None:
    pairs = make_pairs(ROWS)
    assert list_rows(pairs.at([4, 0, 2])) == [ROWS[4], ROWS[0], ROWS[2]]
    assert list_rows(pairs.at(range(1, 3))) == ROWS[1:3]
    assert len(pairs.at([])) == 0


def test_columns_of_pairs_are_concatenated_in_order() -> None:
    parts = [make_pairs(ROWS[:2]), make_pairs([]), make_pairs(ROWS[2:])]
    assert list_rows(join_pairs(parts)) == ROWS
    assert list_rows(join_pairs(parts[:1])) == ROWS[:2]
    assert len(join_pairs([])) == 0
