"""Settings of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.numbers import MAX_ITG_PHRASE_LENGTH, MAX_SIDE_LENGTH, MAX_TYPE_MOVES
from hierogram.samplers.grammar.settings import (
    ALIGNERS,
    ANNEALED,
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
from hierogram.storage.options import MAX_NUMBER, Option

INFINITY = float("inf")

KEPT, LOWERED = "kept", "lowered"
CASES = {KEPT: "", LOWERED: "text is lowercased"}
BASES = {UNIFORM: "P_M, equally probable productions", PCFG: "P_C, relative frequencies of productions"}
LearnedSettings = Mapping[str, bool | tuple[str, ...] | None]
"""Settings that a store learns from its first text, by name. `tokenize` is None if undetermined."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a store: model, schedule and text processing [CFGŠ14 §5.2-5.4].

    Only `key_salt` and the settings of the first text change after creation. Fields without an `Option` are stored, so
    that a store keeps its values, but `hierogram init` cannot set them. `dirichlet` has another default `temperature`.

    `strength` is alpha (one value for all lengths), `rate` the Poisson mean of rule lengths, `start` the initial state
    of new trees, `round_sweeps` the sweeps of a round over pairs that have burned in, `key_salt` the salt of rule keys.

    `sweeps_per_level` K and `levels` apply to the schedule `paper`. In the other schedules, a pair has burned in after
    `burn_in` sweeps at T = 1. In the schedule `annealed`, and for trees [CGB09], the temperature falls from
    `temperature` to 1 in the first `annealing` sweeps. The model, its parameters, the span limit and the schedule apply
    to synchronous grammars.

    `languages` are the source and target languages, () if unknown. If `tokenize` is True, pairs without links are
    tokenized by the rules of these languages, or by general rules. If it is None, the first pairs with signs of running
    text or tokens set it permanently, see `hierogram.daemon.text.inspection`; until then, tokens are kept. If this
    input has languages, it also sets them. The first tokenized text sets `word_parts` and `orthographies` permanently.
    `word_parts` define how the words of source and target are split, () if all words are whole, see
    `hierogram.daemon.text.segments`. `orthographies` are the orthographies of source and target as JSON, () before the
    first text, see `hierogram.daemon.text.orthography`. The orthography of a side with too little text is empty.
    """

    model: Annotated[str, Option("Rule model", values={PITMAN_YOR: "one process per rule length", DIRICHLET: ""})] = (
        PITMAN_YOR
    )
    discount: Annotated[float, Option("Pitman-Yor discount d.", min=0, below=1)] = 0.5
    strength: Annotated[float, Option("Strength α of the prior.", above=0, below=INFINITY)] = 5.0
    rate: float = 2.0
    span_limit: Annotated[
        int, Option("Always cut phrases of more than N words on either side. 0: no limit.", min=0, metavar="N")
    ] = 7
    seed: Annotated[int, Option("Random seed.", min=0, max=MAX_NUMBER)] = 1
    round_sweeps: int = 10
    schedule: Annotated[
        str,
        Option("Schedule of a new pair", values=SCHEDULES, shown=f"{STRATIFIED}; {ANNEALED} with {DIRICHLET}"),
    ] = STRATIFIED
    sweeps_per_level: int = 10
    levels: int = 7
    burn_in: Annotated[
        int, Option("Sweeps at T = 1 until a new pair is settled. Not used by the schedule `paper` or by trees.", min=1)
    ] = 10
    type_moves: Annotated[
        int,
        Option(
            "Number of type-based moves after each sweep at T = 1. Requires the model dirichlet.",
            min=0,
            max=MAX_TYPE_MOVES,
        ),
    ] = 0
    max_tokens: Annotated[
        int, Option("Maximum number of tokens per side. Longer pairs are rejected.", min=1, max=MAX_SIDE_LENGTH)
    ] = 200
    key_salt: int = 0
    grammar: Annotated[str, Option("Kind of grammar", values=GRAMMAR_KINDS.keys(), flags=("--kind",))] = SYNCHRONOUS
    base: Annotated[str, Option("Base distribution of tree fragments", values=BASES)] = PCFG
    start: str = JOINED
    temperature: float = 5.0
    annealing: Annotated[
        int,
        Option(
            "Sweeps in which a new tree, or a new pair with the schedule annealed, is annealed to T = 1.",
            min=1,
            shown=f"200; 280 with {DIRICHLET}",
        ),
    ] = 200
    languages: Annotated[
        tuple[str, ...],
        Option(
            "Source and target language, such as fr,en. Input that declares other languages is rejected.",
            metavar="SRC,TGT", shown="unknown",
        ),
    ] = ()  # fmt: skip
    tokenize: Annotated[
        bool | None,
        Option(
            "Tokenize pairs without links, or keep their tokens.",
            flags=("--tokenize/--no-tokenize",), shown="determined by the first text",
        ),
    ] = None  # fmt: skip
    case: Annotated[str, Option("Treatment of capital letters", values=CASES)] = KEPT
    aligner: Annotated[str, Option("Aligner of pairs without links", values=ALIGNERS)] = FERTILITIES
    phrase_words: Annotated[
        int,
        Option(
            "Maximum number of words per side of an ITG phrase pair. 1 allows only word pairs.",
            min=1,
            max=MAX_ITG_PHRASE_LENGTH,
        ),
    ] = 1
    slices: Annotated[str, Option("Distribution of the slice variables of an ITG", values=SLICES)] = FLAT
    word_parts: tuple[str, ...] = ()
    orthographies: tuple[str, ...] = ()
