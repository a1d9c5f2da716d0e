"""Deterministic proof that a type-based move leaves the exact joint posterior invariant, unlike a mutant's move."""

import pytest
from tests.reference import examples
from tests.reference.enumeration import all_trees, posterior, to_variables, total_variation
from tests.reference.forest import Forest
from tests.reference.models import Dirichlet, Model, PitmanYor
from tests.reference.moves.type_moves import NEVER_BACK, NO_CHOICES, NO_CONFLICTS, OWN_COUNTED, PARTS_APART, TypeMoves
from tests.reference.rules import Variables

EXACT = 1e-10
CLEAR = 0.02
"""Total variation that one move of a mutant must exceed."""
MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=1.0, source_words=4, target_words=5),
    "balanced DP": Dirichlet(strength=5.0, source_words=2, target_words=2),
    "PY without discount": PitmanYor(discount=0.0, strength=1.5, rate=2.0),
}
CORPORA: dict[str, tuple[list[Forest], int]] = {
    "three equal pairs": ([examples.COUPLE] * 3, 0),
    "three ladders": ([examples.ladder(3)] * 3, 0),
    "two ladders, sites share rules": ([examples.ladder(4)] * 2, 0),
    "ladders of two lengths": ([examples.ladder(5), examples.ladder(3)], 0),
    "ladders, limit 2": ([examples.ladder(4)] * 2, 2),
    "repeats within and between": ([examples.TWICE_APART, examples.TWICE], 0),
    "a part of a longer pair": ([examples.THREE, examples.COUPLE], 0),
    "a part of a longer pair, limit 1": ([examples.THREE, examples.COUPLE, examples.COUPLE], 1),
    "a swap among equals": ([examples.COUPLE, examples.SWAPPED, examples.COUPLE], 0),
}


def largest_change(forests: list[Forest], span_limit: int, model: Model, mutant: str | None = None) -> float:
    """Return the total variation between the exact posterior and its image under a move, for the worst pivot.

    Unused variables keep their values, so one setting of them represents all.
    """
    moves = TypeMoves(forests, model, span_limit, mutant)
    before: dict[tuple[Variables, ...], float] = {}
    for joint, p in posterior(forests, model, span_limit).items():
        before[tuple(to_variables(f, tree) for f, tree in zip(forests, joint, strict=True))] = p
    return max(total_variation(before, moves.push(before, pivot)) for pivot in moves.free())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"),
    # The largest corpus is tested with only one model, because it takes the longest.
    [(name, model) for name in CORPORA for model in MODELS if "limit 1" not in name or model == "DP"],
)
def test_type_moves_leave_the_posterior_invariant(name: str, model: str) -> None:
    forests, limit = CORPORA[name]
    assert largest_change(forests, limit, MODELS[model]) < EXACT


MUTANTS = {
    NO_CHOICES: "three equal pairs",
    OWN_COUNTED: "three equal pairs",
    PARTS_APART: "three ladders",
    NEVER_BACK: "two ladders, sites share rules",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_of_type_moves_change_the_posterior(mutant: str) -> None:
    forests, limit = CORPORA[MUTANTS[mutant]]
    assert largest_change(forests, limit, MODELS["balanced DP"], mutant) > CLEAR
    assert largest_change(forests, limit, MODELS["balanced DP"]) < EXACT


def test_sites_that_share_rules_cannot_move_together() -> None:
    forests, limit = CORPORA["two ladders, sites share rules"]
    with pytest.raises(ValueError, match="has no count to remove"):
        largest_change(forests, limit, MODELS["balanced DP"], NO_CONFLICTS)


def test_a_type_move_spans_three_equal_pairs() -> None:
    moves = TypeMoves([examples.COUPLE] * 3, MODELS["DP"])
    joint = tuple(to_variables(f, next(all_trees(f, 0))) for f in moves.forests)
    assert len({site.pair for site in moves.sites(moves.free()[0], joint)}) == 3
    assert {len(set(after)) for after, _ in moves.outcomes(moves.free()[0], joint)} == {1, 2}
