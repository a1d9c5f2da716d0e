"""The Bayesian HMM aligners in plain Python: joint probabilities in closed form, conditionals, sweeps, word moves.

A state holds, for each pair and emitted position, the link (None: no word), and whether the word forms a collocation
with the previous word.
Counts are always computed from a whole state, so they cannot become stale. Results for a state are cached.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import combinations, product
from math import exp, lgamma, log
from typing import NamedTuple

from tests.reference.streams import Stream

from hierogram.samplers.grammar.known_links import KnownLinks

BHMM, BHMM_Z, BHMM_F = "bhmm", "bhmm-z", "bhmm-f"
NO_OUTGOING = "no_outgoing"
"""Mutant: the factor of the jump to the next link is omitted."""
OWN_LINK_COUNTED = "own_link_counted"
"""Mutant: the link that is being drawn stays in the lexical counts."""
STALE_JUMPS = "stale_jumps"
"""Mutant: the probability of each jump of a pair does not count the other jumps of the pair."""
WHOLE_BINS = "whole_bins"
"""Mutant: each position of a bin of jumps has the probability of the whole bin."""
SINGLE_WIDTHS = 100

TO_NO_WORD, FROM_NO_WORD = "to no word", "from no word"
MOVES = 3
KEPT = 1 << 15
"""Maximum number of cached results of each function."""
TILTS = tuple(exp(x) for x in (-4, -2, 0, 2, 4))
MAX_FERTILITY = 7
FERTILITY_PRIOR = (0.3, 0.5, 0.12, 0.04, 0.015, 0.012, 0.008, 0.005)


class Pair(NamedTuple):
    emitted: tuple[str, ...]
    conditioning: tuple[str, ...]


class Word(NamedTuple):
    """Variables of an emitted word: its link, and whether it forms a collocation with the previous word (Z)."""

    link: int | None
    collocated: bool = False


State = tuple[tuple[Word, ...], ...]


@dataclass(frozen=True)
class Settings:
    """Model, hyperparameters, mutant, and known links by pair number."""

    model: str
    lexical: float = 0.3
    jump: float = 0.7
    collocation: float = 0.4
    s: float = 1.3
    r: float = 0.6
    unlinked: float = 0.3
    fertility: float = 1.5
    mutant: str = ""
    known: Mapping[int, KnownLinks] = field(default_factory=dict, hash=False)

    @property
    def candidates(self) -> int:
        """Number of positions that a link is drawn from (0: all)."""
        return 2 if self.model == BHMM_Z else 0


class Corpus:
    """Sentence pairs, the vocabulary of emitted words, and the prior counts of word pairs.

    Jumps of up to `single` positions are counted by width, wider jumps in bins. The first bin has `single` widths, and
    each further bin twice as many as the previous one.
    """

    def __init__(
        self, pairs: Sequence[Pair], favored: Mapping[tuple[str, str], float] | None = None, single: int = SINGLE_WIDTHS
    ) -> None:
        self.pairs = list(pairs)
        self.emitted_words = {word for pair in pairs for word in pair.emitted}
        self.single = single
        longest = max(1, *(len(pair.conditioning) for pair in pairs))
        self.widest = longest if longest < single else self.find_event(longest + 1)
        self.favored = dict(favored or {})

    def find_event(self, width: int) -> int:
        """Return the event of a width: the width itself, or the signed number of its bin."""
        event, last = min(abs(width), self.single), self.single
        while abs(width) > last:
            event, last = event + 1, 2 * last
        return event if width > 0 else -event

    def jump_event(self, width: int) -> int:
        """Return the event of a width, limited to the widest event of the corpus."""
        return max(-self.widest, min(self.widest, self.find_event(width)))

    def jump_share(self, jump: Hashable) -> float:
        """Return the share of one width in the probability of its event (`jump`), which its widths share equally."""
        if not isinstance(jump, int) or abs(jump) <= self.single:
            return 1.0
        return 1 / (self.single << (abs(jump) - self.single - 1))

    def prior_mass(self, conditioning: str | None, settings: Settings) -> float:
        """Return the sum of the lexical prior of a conditioning word over all emitted words."""
        favored = sum(weight for (e, _), weight in self.favored.items() if e == conditioning)
        return settings.lexical * len(self.emitted_words) + favored


@dataclass
class Counts:
    """All counts of a state. Copy them before changing them."""

    lexical: Counter[tuple[str | None, str]]
    conditioning: Counter[str | None]
    jumps: Counter[Hashable]
    fertility: Counter[tuple[str, int]]
    tokens: Counter[str]
    bigrams: Counter[tuple[str | None, str]]
    plain: Counter[str | None]
    collocated: Counter[str | None]
    unlinked: int
    linked: int


def list_jumps(words: Sequence[Word], length: int, model: str, corpus: Corpus) -> list[Hashable]:
    """Return the jumps of one pair, in order: events, or jumps to and from no word."""

    def width(start: int, stop: int) -> int:
        return corpus.jump_event(stop - start)

    jumps: list[Hashable] = []
    before: int | None = -1
    for word in words:
        if model == BHMM_F:
            if word.link is not None and before is not None:
                jumps.append(width(before, word.link))
                before = word.link
            continue
        if word.link is None:
            jumps.append(TO_NO_WORD)
        elif before is None:
            jumps.append(FROM_NO_WORD)
        else:
            jumps.append(width(before, word.link))
        before = word.link
    if model == BHMM_F and words and before is not None:
        jumps.append(width(before, length))
    return jumps


def count(corpus: Corpus, state: State, settings: Settings) -> Counts:
    return _count(corpus, state, settings.model)


@lru_cache(KEPT)
def _count(corpus: Corpus, state: State, model: str) -> Counts:
    counts = Counts(Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), 0, 0)
    for pair, words in zip(corpus.pairs, state, strict=True):
        counts.jumps.update(list_jumps(words, len(pair.conditioning), model, corpus))
        previous: str | None = None
        links: Counter[int] = Counter()
        for f, word in zip(pair.emitted, words, strict=True):
            if word.collocated:
                counts.bigrams[previous, f] += 1
                counts.collocated[previous] += 1
            else:
                e = None if word.link is None else pair.conditioning[word.link]
                counts.lexical[e, f] += 1
                counts.conditioning[e] += 1
                counts.plain[previous] += 1
            if word.link is None:
                counts.unlinked += 1
            else:
                counts.linked += 1
                links[word.link] += 1
            previous = f
        for i, e in enumerate(pair.conditioning):
            counts.fertility[e, min(links[i], MAX_FERTILITY)] += 1
            counts.tokens[e] += 1
    return counts


def _rising(start: float, steps: int) -> float:
    """Return the log of the rising factorial start · (start + 1) · … with `steps` factors."""
    return lgamma(start + steps) - lgamma(start)


@lru_cache(KEPT)
def log_joint(corpus: Corpus, state: State, settings: Settings) -> float:
    """Return the log of the joint probability of all variables and words, up to a constant of the corpus."""
    counts = count(corpus, state, settings)
    total = 0.0
    for (e, f), n in counts.lexical.items():
        total += _rising(settings.lexical + corpus.favored.get((e or "", f), 0.0), n)
    for e, n in counts.conditioning.items():
        total -= _rising(corpus.prior_mass(e, settings), n)
    for jump, n in counts.jumps.items():
        total += _rising(settings.jump, n) + n * log(corpus.jump_share(jump))
    if settings.model == BHMM_Z:
        words = len(corpus.emitted_words)
        for n in counts.bigrams.values():
            total += _rising(settings.collocation, n)
        for previous in counts.plain | counts.collocated:
            one, other = counts.collocated[previous], counts.plain[previous]
            total += (
                _rising(settings.s, one) + _rising(settings.r, other) - _rising(settings.s + settings.r, one + other)
            )
            total -= _rising(settings.collocation * words, one)
    if settings.model == BHMM_F:
        total += counts.unlinked * log(settings.unlinked) + counts.linked * log(1 - settings.unlinked)
        total -= _rising(settings.jump * (2 * corpus.widest + 1), counts.jumps.total())
        for (_, k), n in counts.fertility.items():
            total += _rising(settings.fertility * FERTILITY_PRIOR[k], n)
        for n in counts.tokens.values():
            total -= _rising(settings.fertility * sum(FERTILITY_PRIOR), n)
    return total


def all_states(corpus: Corpus, settings: Settings) -> Iterator[State]:
    per_pair = []
    for pair in corpus.pairs:
        options: list[Word]
        if settings.model == BHMM_Z:
            options = [Word(i, z) for i in range(len(pair.conditioning)) for z in (False, True)]
        else:
            options = [Word(None), *(Word(i) for i in range(len(pair.conditioning)))]
        per_pair.append(list(product(options, repeat=len(pair.emitted))))
    yield from product(*per_pair)


def posterior(corpus: Corpus, settings: Settings) -> dict[State, float]:
    """Return the exact posterior of the states that the known links allow, from the closed form."""
    logs = {
        state: log_joint(corpus, state, settings)
        for state in all_states(corpus, settings)
        if all(
            may_link(settings.known, p, g, word.link) for p, words in enumerate(state) for g, word in enumerate(words)
        )
    }
    most = max(logs.values())
    total = sum(exp(value - most) for value in logs.values())
    return {state: exp(value - most) / total for state, value in logs.items()}


def with_word(state: State, p: int, g: int, word: Word) -> State:
    words = (*state[p][:g], word, *state[p][g + 1 :])
    return (*state[:p], words, *state[p + 1 :])


def positions(corpus: Corpus, p: int, settings: Settings) -> list[int | None]:
    """Return the links that the model allows for a word of the pair, in order."""
    conditioning: list[int | None] = list(range(len(corpus.pairs[p].conditioning)))
    return conditioning if settings.model == BHMM_Z else [None, *conditioning]


@lru_cache(KEPT)
def link_weight(corpus: Corpus, state: State, p: int, g: int, link: int | None, settings: Settings) -> float:
    """Return the unnormalized probability of a link given everything else [SA16 eqs. 5, 6]."""
    word = state[p][g]
    length = len(corpus.pairs[p].conditioning)
    seen = count(corpus, state, settings).jumps.copy()
    seen.subtract(list_jumps(state[p], length, settings.model, corpus))
    others, arriving, leaving = _jumps_around(with_word(state, p, g, Word(link))[p], g, length, settings, corpus)
    kinds = 2 * corpus.widest + 1
    weight = 1.0
    for number, jump in enumerate([*others, *arriving, *leaving]):
        outgoing = number == len(others) + len(arriving)
        weight *= 1.0 if outgoing and settings.mutant == NO_OUTGOING else seen[jump] + settings.jump
        weight *= 1.0 if settings.mutant == WHOLE_BINS else corpus.jump_share(jump)
        if settings.model == BHMM_F:
            weight /= seen.total() + settings.jump * kinds
        seen[jump] += settings.mutant != STALE_JUMPS
    if settings.model == BHMM_F:
        weight *= settings.unlinked if link is None else 1 - settings.unlinked
        weight *= _fertility_factor(corpus, state, p, g, link, settings)
    if not word.collocated:
        weight *= lexical_probability(corpus, state, p, g, link, settings)
    return weight


def _jumps_around(
    words: Sequence[Word], g: int, length: int, settings: Settings, corpus: Corpus
) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    """Return the jumps of a pair in three lists: jumps independent of a word, to its link, and from its link."""
    jumps = list_jumps(words, length, settings.model, corpus)
    here = g
    if settings.model == BHMM_F:
        if words[g].link is None:
            return jumps, [], []
        here = sum(word.link is not None for word in words[:g])
    return jumps[:here] + jumps[here + 2 :], jumps[here : here + 1], jumps[here + 1 : here + 2]


def _fertility_factor(corpus: Corpus, state: State, p: int, g: int, link: int | None, settings: Settings) -> float:
    """Return the factor by which a link, instead of no link, changes the probability of all fertilities."""

    def log_fertilities(now: State) -> float:
        counts = count(corpus, now, settings)
        return sum(_rising(settings.fertility * FERTILITY_PRIOR[k], n) for (_, k), n in counts.fertility.items())

    without, with_link = with_word(state, p, g, Word(None)), with_word(state, p, g, Word(link))
    return exp(log_fertilities(with_link) - log_fertilities(without))


@lru_cache(KEPT)
def lexical_probability(corpus: Corpus, state: State, p: int, g: int, link: int | None, settings: Settings) -> float:
    """Return P(word | conditioning word, all other links) [SA16 eq. 3]."""
    pair, word = corpus.pairs[p], state[p][g]
    f = pair.emitted[g]
    e = None if link is None else pair.conditioning[link]
    counts = count(corpus, state, settings)
    own = 0
    if not word.collocated and settings.mutant != OWN_LINK_COUNTED:
        old = None if word.link is None else pair.conditioning[word.link]
        own = int(old == e)
    weight = counts.lexical[e, f] - own + settings.lexical + corpus.favored.get((e or "", f), 0.0)
    return weight / (counts.conditioning[e] - own + corpus.prior_mass(e, settings))


def collocation_share(corpus: Corpus, state: State, p: int, g: int, settings: Settings) -> float:
    """Return P(Z = 1 | all else) [SA16 eqs. 3, 4]."""
    pair, word = corpus.pairs[p], state[p][g]
    f, previous = pair.emitted[g], pair.emitted[g - 1] if g else None
    counts = count(corpus, state, settings)
    bigrams = counts.bigrams[previous, f] - word.collocated
    collocated = counts.collocated[previous] - word.collocated
    others = counts.plain[previous] - (not word.collocated)
    plain = (others + settings.r) * lexical_probability(corpus, state, p, g, word.link, settings)
    one = (collocated + settings.s) * (bigrams + settings.collocation)
    one /= collocated + settings.collocation * len(corpus.emitted_words)
    return one / (one + plain)


class Draw(NamedTuple):
    """An outcome of a step: the resulting state and its probability."""

    state: State
    probability: float


def link_draws(corpus: Corpus, state: State, p: int, g: int, settings: Settings) -> Iterator[Draw]:
    """Yield every outcome of drawing one link, for every selection of candidates [SA16 §4.3]."""
    options = positions(corpus, p, settings)
    for selection in _selections(options, state[p][g].link, settings.candidates):
        weights = [link_weight(corpus, state, p, g, link, settings) for link in selection[0]]
        for link, weight in zip(selection[0], weights, strict=True):
            result = with_word(state, p, g, Word(link, state[p][g].collocated))
            yield Draw(result, selection[1] * weight / sum(weights))


def _selections(
    options: list[int | None], present: int | None, candidates: int
) -> Iterable[tuple[list[int | None], float]]:
    if candidates == 0 or candidates >= len(options):
        return [(options, 1.0)]
    others = [option for option in options if option != present]
    chosen = list(combinations(others, candidates - 1))
    return [([present, *some], 1 / len(chosen)) for some in chosen]


def collocation_draws(corpus: Corpus, state: State, p: int, g: int, settings: Settings) -> Iterator[Draw]:
    """Yield every outcome of drawing one Z."""
    share = collocation_share(corpus, state, p, g, settings)
    link = state[p][g].link
    yield Draw(with_word(state, p, g, Word(link, True)), share)
    yield Draw(with_word(state, p, g, Word(link, False)), 1 - share)


Site = tuple[int, int]
"""An emitted position: pair number and position of the word."""


class Move(NamedTuple):
    """A move of an emitted word between two conditioning words. `tilt` multiplies the weight of links to `one`."""

    one: str | None
    other: str | None
    tilt: float


def list_sites(corpus: Corpus, f: str) -> list[Site]:
    """Return the positions of the emitted word `f` in all pairs."""
    return [(p, g) for p, pair in enumerate(corpus.pairs) for g, word in enumerate(pair.emitted) if word == f]


def _linked_word(corpus: Corpus, state: State, site: Site) -> str | None:
    link = state[site[0]][site[1]].link
    return None if link is None else corpus.pairs[site[0]].conditioning[link]


def _share(corpus: Corpus, site: Site, word: str | None) -> float:
    """Return the share of a conditioning word among a site's options: one half for the empty word.
    0 if the conditioning side has no words.
    """
    conditioning = corpus.pairs[site[0]].conditioning
    if not conditioning:
        return 0.0
    return 0.5 if word is None else conditioning.count(word) / (2 * len(conditioning))


def _movable(corpus: Corpus, state: State, f: str, move: Move) -> dict[Site, str | None]:
    """Return the sites that a move may relink, each with the word of the move that it is not linked to."""
    found = {}
    for site in list_sites(corpus, f):
        here = _linked_word(corpus, state, site)
        if here in move[:2]:
            away = move.other if here == move.one else move.one
            if _share(corpus, site, away):
                found[site] = away
    return found


def move_chance(corpus: Corpus, state: State, f: str, move: Move) -> float:
    """Return the probability that a move of a word is between these two conditioning words."""
    movable = _movable(corpus, state, f, move)
    return sum(_share(corpus, site, away) for site, away in movable.items()) / len(list_sites(corpus, f))


def relink_weights(
    corpus: Corpus, state: State, site: Site, left: Sequence[Site], move: Move, settings: Settings
) -> dict[int | None, float]:
    """Return the weights of a site's links to the two words, given all links except links of the sites in `left`.

    `left` includes the site itself. Jumps of these sites are counted, but not their words.
    """
    p, g = site
    pair = corpus.pairs[p]
    counts = count(corpus, state, settings)
    lexical, conditioning = counts.lexical.copy(), counts.conditioning.copy()
    for other in left:
        here = _linked_word(corpus, state, other)
        lexical[here, corpus.pairs[other[0]].emitted[other[1]]] -= 1
        conditioning[here] -= 1
    weights = {}
    for link in positions(corpus, p, settings):
        e, f = None if link is None else pair.conditioning[link], pair.emitted[g]
        if e in move[:2]:
            jumps = link_weight(corpus, state, p, g, link, settings)
            jumps /= lexical_probability(corpus, state, p, g, link, settings)
            word = lexical[e, f] + settings.lexical + corpus.favored.get((e or "", f), 0.0)
            word /= conditioning[e] + corpus.prior_mass(e, settings)
            weights[link] = jumps * word * (move.tilt if e == move.one else 1.0)
    return weights


def relinked(
    corpus: Corpus, state: State, sites: Sequence[Site], move: Move, settings: Settings
) -> Iterator[tuple[State, float]]:
    """Yield every way to relink sites in sequence, with its log probability."""
    if not sites:
        yield state, 0.0
        return
    weights = relink_weights(corpus, state, sites[0], sites, move, settings)
    for link, weight in weights.items():
        drawn = log(weight / sum(weights.values()))
        for after, more in relinked(corpus, with_word(state, *sites[0], Word(link)), sites[1:], move, settings):
            yield after, drawn + more


def acceptance(
    corpus: Corpus, state: State, after: State, there: float, f: str, move: Move, settings: Settings
) -> float:
    """Return the acceptance probability of a state that is proposed with the log probability `there`."""
    back_move = move._replace(tilt=1 / move.tilt)
    sites = list(_movable(corpus, after, f, move))
    [back] = [found for end, found in relinked(corpus, after, sites, back_move, settings) if end == state]
    ratio = log_joint(corpus, after, settings) - log_joint(corpus, state, settings) + back - there
    ratio += log(move_chance(corpus, after, f, move)) - log(move_chance(corpus, state, f, move))
    return exp(min(ratio, 0.0))


def word_draws(corpus: Corpus, state: State, f: str, settings: Settings) -> Iterator[Draw]:
    """Yield every outcome of one move of an emitted word."""
    words: set[str | None] = {None, *(e for pair in corpus.pairs for e in pair.conditioning)}
    moved = 0.0
    for one, other in combinations(sorted(words, key=str), 2):
        chance = move_chance(corpus, state, f, Move(one, other, 1.0)) / len(TILTS)
        for tilt in TILTS if chance else ():
            move = Move(one, other, tilt)
            for after, there in relinked(corpus, state, list(_movable(corpus, state, f, move)), move, settings):
                taken = chance * exp(there) * acceptance(corpus, state, after, there, f, move, settings)
                moved += taken
                yield Draw(after, taken)
    yield Draw(state, 1 - moved)


def move_word(corpus: Corpus, state: State, f: str, stream: Stream, settings: Settings) -> State:
    """Draw one move of an emitted word, with the same random numbers as the kernel."""
    sites = list_sites(corpus, f)
    site = sites[int(stream.uniform() * len(sites))]
    conditioning = corpus.pairs[site[0]].conditioning
    option = int(stream.uniform() * 2 * len(conditioning))
    tilt = TILTS[int(stream.uniform() * len(TILTS))]
    one, other = _linked_word(corpus, state, site), conditioning[option] if option < len(conditioning) else None
    if one == other:
        return state
    move, after, there = Move(one, other, tilt), state, 0.0
    left = list(_movable(corpus, state, f, move))
    while left:
        weights = relink_weights(corpus, after, left[0], left, move, settings)
        link = list(weights)[_pick(list(weights.values()), stream.uniform())]
        there += log(weights[link] / sum(weights.values()))
        after = with_word(after, *left.pop(0), Word(link))
    return after if stream.uniform() < acceptance(corpus, state, after, there, f, move, settings) else state


def push(corpus: Corpus, before: Mapping[State, float], settings: Settings) -> dict[State, float]:
    """Return the exact distribution after a sweep over all pairs, without word moves."""
    now = dict(before)
    for p, pair in enumerate(corpus.pairs):
        for g in range(len(pair.emitted)):
            now = _push_one(now, partial(link_draws, corpus, p=p, g=g, settings=settings))
            if settings.model == BHMM_Z:
                now = _push_one(now, partial(collocation_draws, corpus, p=p, g=g, settings=settings))
    return now


def push_move(corpus: Corpus, before: Mapping[State, float], f: str, settings: Settings) -> dict[State, float]:
    """Return the exact distribution after one move of an emitted word."""
    return _push_one(before, partial(word_draws, corpus, f=f, settings=settings))


def _push_one(before: Mapping[State, float], draws: Callable[[State], Iterator[Draw]]) -> dict[State, float]:
    after: dict[State, float] = defaultdict(float)
    for state, probability in before.items():
        for draw in draws(state):
            after[draw.state] += probability * draw.probability
    return dict(after)


def sweep(corpus: Corpus, state: State, seed: int, number: int, settings: Settings) -> State:
    """Return the state after one sweep, with the same random numbers as the kernels."""
    known = settings.known
    for p, pair in enumerate(corpus.pairs):
        stream = Stream(seed, p, number)
        for g in range(len(pair.emitted)):
            options = positions(corpus, p, settings)
            if 0 < settings.candidates < len(options):
                options = _drawn_candidates(options, state[p][g].link, settings.candidates, stream)
            weights = [
                link_weight(corpus, state, p, g, link, settings) if may_link(known, p, g, link) else 0.0
                for link in options
            ]
            link = options[_pick(weights, stream.uniform())]
            state = with_word(state, p, g, Word(link, state[p][g].collocated))
            if settings.model == BHMM_Z:
                share = collocation_share(corpus, state, p, g, settings)
                state = with_word(state, p, g, Word(link, stream.uniform() < share))
    if settings.model == BHMM:
        for number_of_word, f in enumerate(dict.fromkeys(f for pair in corpus.pairs for f in pair.emitted)):
            stream = Stream(seed, len(corpus.pairs) + number_of_word, number)
            for _ in range(MOVES if len(list_sites(corpus, f)) > 1 else 0):
                state = move_word(corpus, state, f, stream, settings)
    return state


def may_link(known: Mapping[int, KnownLinks], p: int, g: int, link: int | None) -> bool:
    """Check if the known links (conditioning, emitted) of a pair allow the link for an emitted word."""
    of_pair = known.get(p, KnownLinks())
    fixed = {i for i, emitted in of_pair.fixed if emitted == g}
    return link in fixed if fixed else (link, g) not in of_pair.forbidden


def _drawn_candidates(
    options: list[int | None], present: int | None, candidates: int, stream: Stream
) -> list[int | None]:
    chosen = [present]
    while len(chosen) < candidates:
        option = options[int(stream.uniform() * len(options))]
        if option not in chosen:
            chosen.append(option)
    return chosen


def _pick(weights: Sequence[float], u: float) -> int:
    threshold = u * sum(weights)
    reached = 0.0
    for k, weight in enumerate(weights[:-1]):
        reached += weight
        if reached > threshold:
            return k
    return len(weights) - 1


def links_of_means(
    forward: Sequence[Sequence[float]], backward: Sequence[Sequence[float]], likely: float, beside: float
) -> set[tuple[int, int]]:
    """Return links (source, target) with a mean posterior above `likely`, and some of their neighbors above `beside`.

    A neighbor is returned if one of its words has no link with a mean posterior above `likely`.

    `forward` has a row for each target word, with the probability of each source word as its link; `backward` a row
    for each source word.
    """
    means = {
        (s, t): (forward[t][s] + probability) / 2
        for s, of_source in enumerate(backward)
        for t, probability in enumerate(of_source)
    }
    kept = {link for link, mean in means.items() if mean > likely}
    sources, targets = {s for s, _ in kept}, {t for _, t in kept}
    grown = {
        (s, t)
        for (s, t), mean in means.items()
        if mean > beside
        and (s not in sources or t not in targets)
        and kept & {(s - 1, t), (s + 1, t), (s, t - 1), (s, t + 1)}
    }
    return kept | grown


def expected_threshold(means: Iterable[float], least: int, steps: int) -> float:
    """Return the threshold k/`steps`, k from `least`, whose links have the largest expected F-score [Lewis 1995].

    Each mean is the probability of its link. The F-score is twice the expected number of correct links at or above the
    threshold, divided by the number of links at or above it plus the expected number of correct links. k < `steps`.
    """
    found = list(means)

    def expected(k: int) -> float:
        above = [mean for mean in found if mean >= k / steps]
        return 2 * sum(above) / (len(above) + sum(found)) if found else 0.0

    return max(range(least, steps), key=expected) / steps
