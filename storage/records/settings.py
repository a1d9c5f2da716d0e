"""The settings of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hierogram.samplers.grammar.kinds import NOTATIONS
from hierogram.samplers.grammar.numbers import LONGEST_ITG_PHRASE, LONGEST_SIDE, MOST_TYPE_MOVES
from hierogram.samplers.grammar.settings import (
    ALIGNERS,
    DIRICHLET,
    FERTILITIES,
    FLAT,
    JOINED,
    PCFG,
    PITMAN_YOR,
    SCHEDULES,
    SLICES,
    STRATIFIED,
    SYNCHRONOUS,
    UNIFORM,
)
from hierogram.storage.options import LARGEST_NUMBER, Option

LARGEST_SEED = LARGEST_NUMBER
INFINITY = float("inf")

KEPT, LOWERED = "kept", "lowered"
CASES = (KEPT, LOWERED)
"""Treatment of capital letters on ingest."""
MAX_BPE_MERGES = 4_000
"""Default maximum number of merges of byte pair encoding."""
PART_MARK = "￭"
"""Prefix of each subword except the first of a word, in stores with byte pair encoding."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Model and schedule of a store, fixed at creation [CFGŠ14 §5.2-5.4].

    Fields without an `Option` are constants, which `hierogram init` does not set. They are stored, so that a store
    keeps its values; the experiments in `tools` vary them.

    `strength` is alpha (one value for all lengths), `rate` the Poisson mean of rule lengths, `round_sweeps` the number
    of sweeps in a round over pairs that have burned in, `key_salt` the salt of the rule keys.

    `sweeps_per_level` K and `levels` apply to the schedule `paper`. In the other schedules, a pair has burned in after
    `burn_in` sweeps at T = 1. In the schedule `annealed`, and for trees [CGB09], the temperature falls from
    `temperature` to 1 in the first `annealing` sweeps. The model, its parameters, the span limit and the schedule apply
    to synchronous grammars.

    `languages` are the source and target languages, () if unknown. If `tokenize` is set, pairs without links are
    tokenized by the rules of these languages. `bpe_merges` are the byte pair encoding merges of source and target, ()
    if words are not segmented.
    """

    model: Annotated[str, Option("Model of rules", values={PITMAN_YOR: "by rule length", DIRICHLET: ""})] = PITMAN_YOR
    discount: Annotated[float, Option("Pitman-Yor discount d, 0 ≤ d < 1.", min=0, below=1)] = 0.5
    strength: Annotated[float, Option("Strength α > 0 of the prior.", above=0, below=INFINITY)] = 5.0
    rate: float = 2.0
    span_limit: Annotated[int, Option("Phrases of more words than this are always cut (0: no limit).", min=0)] = 7
    seed: Annotated[int, Option("Seed of all randomness.", min=0, max=LARGEST_SEED)] = 1
    round_sweeps: int = 10
    schedule: Annotated[str, Option("Schedule of a new pair", values=SCHEDULES)] = STRATIFIED
    sweeps_per_level: int = 10
    levels: int = 7
    burn_in: Annotated[
        int, Option("Sweeps at T = 1 until a new pair has burned in; not for `paper`, nor for trees.", min=1)
    ] = 10
    type_moves: Annotated[
        int,
        Option(
            "Type-based moves after a sweep at T = 1; of a Dirichlet process.",
            min=0,
            max=MOST_TYPE_MOVES,
        ),
    ] = 0
    max_tokens: Annotated[int, Option("Longest side, in tokens, that ingest takes.", min=1, max=LONGEST_SIDE)] = 200
    key_salt: int = 0
    grammar: Annotated[
        str, Option("Rules between two languages, or fragments of trees", values=NOTATIONS.keys(), flags=("--kind",))
    ] = SYNCHRONOUS
    base: Annotated[
        str, Option("Base distribution of a tree grammar's fragments", values={UNIFORM: "P_M", PCFG: "P_C"})
    ] = PCFG
    start: str = JOINED
    temperature: float = 5.0
    annealing: Annotated[int, Option("Sweeps in which a new tree, or a pair, is annealed down to T = 1.", min=1)] = 200
    languages: Annotated[
        tuple[str, ...],
        Option(
            "Languages of source and target, as in fr,en; pairs of others are refused then.",
            metavar="SRC,TGT", shown="not known",
        ),
    ] = ()  # fmt: skip
    tokenize: Annotated[bool, Option("Divide what comes without links into tokens, by the languages' rules.")] = False
    case: Annotated[str, Option("What becomes of capital letters", values=CASES)] = KEPT
    aligner: Annotated[str, Option("What aligns pairs that come without links", values=ALIGNERS)] = FERTILITIES
    phrase_words: Annotated[
        int,
        Option("Words of a side that an ITG emits together, at most.", min=1, max=LONGEST_ITG_PHRASE),
    ] = 1
    slices: Annotated[str, Option("Slice variables of an ITG", values=SLICES)] = FLAT
    bpe_merges: tuple[str, ...] = ()
