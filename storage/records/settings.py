"""The settings of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hierogram.samplers.grammar.kinds import NOTATIONS
from hierogram.samplers.grammar.numbers import LONGEST_ITG_PHRASE, LONGEST_SIDE, MOST_TYPE_MOVES
from hierogram.samplers.grammar.settings import (
    ALIGNERS,
    CUT,
    DIRICHLET,
    FERTILITIES,
    FLAT,
    JOINED,
    PCFG,
    PITMAN_YOR,
    RANDOM,
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
"""What becomes of capital letters where pairs come into a store."""
JOINS = 4_000
"""Joins that parts of words are made by, at most, unless said otherwise."""
PART_MARK = "￭"
"""Begins each part of a word but the first, in stores of parts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Model and schedule of a store, fixed for its life [CFGŠ14 §5.2-5.4].

    `strength` is alpha (one value for all lengths), `rate` the Poisson mean of rule lengths, `round_sweeps` how
    many sweeps pairs that have burned in have at a time, `key_salt` the salt of the rule keys.

    `sweeps_per_level` K and `levels` are of the schedule `paper`. By the others a pair has burned in when it has had
    `settling` sweeps at T = 1. By the schedule `annealed`, and for trees [CGB09], the first `annealing` sweeps go from
    `temperature` down to 1. The model, its parameters, the span limit and the choice of a schedule are of synchronous
    grammars.

    `languages` are those of source and target, () where the store does not know them. Pairs that come without links are
    divided into tokens by the rules of these languages with `tokenize`. `joins` are what divides the words of source
    and target into parts, () where words stay whole. `classes` are target words, by class from 1 on, other words being
    of class 0, () where nonterminals are not refined: a phrase has a label by the classes of its first and last target
    word, and rules are told apart by the labels of their nonterminals. `sub_labels` is the number k of those that each
    label of trees is divided into, a power of 2; the label over whole sentences is not divided.
    """

    model: Annotated[str, Option("Model of rules", values={PITMAN_YOR: "by rule length", DIRICHLET: ""})] = PITMAN_YOR
    discount: Annotated[float, Option("Pitman-Yor discount d, 0 ≤ d < 1.", least=0, below=1)] = 0.5
    strength: Annotated[float, Option("Strength α > 0 of the prior.", above=0, below=INFINITY, expert=True)] = 5.0
    rate: Annotated[
        float, Option("Mean λ > 0 of the Poisson prior of rule lengths.", above=0, below=INFINITY, expert=True)
    ] = 2.0
    span_limit: Annotated[int, Option("Phrases of more words than this are always cut (0: no limit).", least=0)] = 7
    seed: Annotated[int, Option("Seed of all randomness.", least=0, most=LARGEST_SEED)] = 1
    round_sweeps: Annotated[
        int, Option("Sweeps that a batch of pairs has in a round, once they have burned in.", least=1, expert=True)
    ] = 10
    schedule: Annotated[str, Option("Schedule of a new pair", values=SCHEDULES)] = STRATIFIED
    sweeps_per_level: Annotated[
        int, Option("Sweeps over each stage of the schedule `paper`.", least=1, expert=True)
    ] = 10
    levels: Annotated[int, Option("Stages of the schedule `paper`, by level of phrase.", least=1, expert=True)] = 7
    settling: Annotated[
        int,
        Option("Sweeps at T = 1 until a new pair has burned in; not for `paper`, nor for trees.", least=1, expert=True),
    ] = 10
    type_moves: Annotated[
        int,
        Option(
            "Type-based moves after a sweep at T = 1; of a Dirichlet process.",
            least=0,
            most=MOST_TYPE_MOVES,
            expert=True,
        ),
    ] = 0
    max_tokens: Annotated[int, Option("Longest side, in tokens, that ingest takes.", least=1, most=LONGEST_SIDE)] = 200
    key_salt: int = 0
    grammar: Annotated[
        str, Option("Rules between two languages, or fragments of trees", values=NOTATIONS.keys(), flags=("--kind",))
    ] = SYNCHRONOUS
    base: Annotated[
        str, Option("Base distribution of a tree grammar's fragments", values={UNIFORM: "P_M", PCFG: "P_C"})
    ] = PCFG
    start: Annotated[
        str,
        Option(
            "How a new tree is cut", values={JOINED: "one fragment", CUT: "everywhere", RANDOM: "by coins"}, expert=True
        ),
    ] = JOINED
    temperature: Annotated[
        float, Option("Temperature T ≥ 1 at which annealing begins.", least=1, below=INFINITY, expert=True)
    ] = 5.0
    annealing: Annotated[
        int, Option("Sweeps in which a new tree, or a pair, is annealed down to T = 1.", least=1, expert=True)
    ] = 200
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
        Option("Words of a side that an ITG emits together, at most.", least=1, most=LONGEST_ITG_PHRASE, expert=True),
    ] = 1
    slices: Annotated[str, Option("Slice variables of an ITG", values=SLICES, expert=True)] = FLAT
    joins: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    sub_labels: int = 1

    @property
    def labels(self) -> int:
        """The number of labels that phrases may have."""
        return (len(self.classes) + 1) ** 2
