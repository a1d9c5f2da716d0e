"""Word segmentation of a store's text: whole words, compounds split into known words, or subwords.

Subwords are learned by byte pair encoding [Sennrich, Haddow & Birch 2016]: starting from letters, the most frequent
pair of adjacent parts within words is merged repeatedly. The ordered list of merges fully defines a segmentation.
The merges or the known words are stored as a setting of the store, so that a word is always split in the same way.

A compound such as German *Haushaltsbehörde* is split into as few known words of the text as possible. The geometric
mean of their frequencies must exceed the frequency of the whole word [Koehn & Knight 2003]. Among splits into equally
many words, the split with the highest mean is chosen. Between two parts, linking letters may be added or dropped.

Users read whole words: `word_view` converts stored parts to words.

A stored part is marked where its word continues, see `hierogram.storage.records.parts`. Subwords after the first begin
with a mark. Parts of a compound before the last end with a mark.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import log

from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.validation import LineColumns, parse_pharaoh, split_tokens
from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.records.parts import GUARD, PART_MARK, join_parts

MAX_BPE_MERGES = 4_000
_MIN_PAIR_COUNT = 2
"""Minimum frequency of adjacent parts that are merged."""

_SAMPLE = 20_000
"""Approximate number of words in the sample for `measure_rare_share`."""
_MIN_RARE_SHARE = 0.1
"""Share of words that occur once in the sample, above which source words may be split into subwords."""
_MIN_COMPOUND_SHARE = 0.02
"""Share of compounds above which they are split. German has 0.04, other languages up to 0.01."""
_MIN_SHARE_RATIO = 1.5
"""Minimum ratio of the source's share of compounds, or of rare words, to the target's share."""
_MIN_PART = 4
"""Minimum number of letters of a part, which excludes most function words and endings."""
_MAX_PARTS = 4
_LINKING_LETTERS = (("", ""), ("s", ""), ("es", ""), ("n", ""), ("en", ""), ("", "e"))
"""Pairs of letters added to and dropped from the end of a known word before another part."""
_MIN_COUNT = 2
"""Minimum frequency of a known word. Rarer words are often names or misspellings."""


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of tokenized lines that consist of letters only, in lowercase."""
    return Counter(word for line in lines for word in line.lower().split() if word.isalpha())


def known_parts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the words that are frequent and long enough for parts of compounds, most frequent first."""
    found = [(word, count) for word, count in counts.items() if count >= _MIN_COUNT and len(word) >= _MIN_PART]
    return dict(sorted(found, key=lambda entry: (-entry[1], entry[0])))


def measure_compounds(counts: Mapping[str, int]) -> float:
    """Return the share of compounds among the words of a text, given their frequencies in lowercase."""
    splitter = CompoundSegmenter(known_parts(counts))
    return sum(count for word, count in counts.items() if splitter.split(word)) / max(1, sum(counts.values()))


class Segmenter:
    """Segmenter that keeps words whole. Base class of all segmenters. Thread-safe."""

    def __init__(self) -> None:
        self._split_cached = cache(self._split_guarded)

    def split_line(self, text: str) -> str:
        """Split a line of words into a line of marked parts."""
        return " ".join([self._split_cached(word) for word in split_tokens(text)])

    def count_parts(self, text: str) -> list[int]:
        """Return the number of parts of each word of a line."""
        return [self._split_cached(word).count(" ") + 1 for word in split_tokens(text)]

    def _split_guarded(self, word: str) -> str:
        return word.replace(PART_MARK, GUARD + PART_MARK) if PART_MARK in word else self._split(word)

    def _split(self, word: str) -> str:
        return word


class SubwordSegmenter(Segmenter):
    """Segmenter into subwords by byte pair encoding, given the merges in the order of learning."""

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.merges = tuple(merges)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}

    def _split(self, word: str) -> str:
        parts = list(word)
        while len(parts) > 1:
            ranked = [(self._ranks[pair], k) for k, pair in enumerate(pairwise(parts)) if pair in self._ranks]
            if not ranked:
                break
            _, position = min(ranked)
            parts[position : position + 2] = [parts[position] + parts[position + 1]]
        return f" {PART_MARK}".join(parts)


class CompoundSegmenter(Segmenter):
    """Segmenter of compounds into known words, given the frequencies of words in lowercase, at least 1.

    Only words of at least `_MIN_PART` letters are known. The last part is capitalized if the compound is.
    """

    def __init__(self, counts: Mapping[str, float]) -> None:
        super().__init__()
        self._logs = {word: log(count) for word, count in counts.items() if len(word) >= _MIN_PART and word.isalpha()}

    def split(self, word: str) -> tuple[str, ...]:
        """Return the parts of a word in lowercase, with linking letters, or () if it is not split."""
        if len(word) < 2 * _MIN_PART or not word.isalpha():
            return ()
        best, parts = self._logs.get(word, -1.0), tuple[str, ...]()
        # Keep only the best split of each prefix (by length), because it does not affect the rest of the word.
        prefix_splits: dict[int, tuple[float, tuple[str, ...]]] = {0: (0.0, ())}
        for number in range(1, _MAX_PARTS + 1):
            longer: dict[int, tuple[float, tuple[str, ...]]] = {}
            for start, (total, before) in prefix_splits.items():
                last = word[start:]
                if before and last in self._logs and (mean := (total + self._logs[last]) / number) > best:
                    best, parts = mean, (*before, last)
                for end in range(start + _MIN_PART, len(word) - _MIN_PART + 1):
                    letters = word[start:end]
                    if known := self.known_word(letters):
                        more = total + self._logs[known]
                        if end not in longer or more > longer[end][0]:
                            longer[end] = more, (*before, letters)
            if parts:
                break
            prefix_splits = longer
        return parts

    def known_word(self, part: str) -> str:
        """Return the most frequent known word that a part may be, such as `haushalt` for `Haushalts`, or ""."""
        letters = part.removesuffix(PART_MARK).lower()
        words = (letters.removesuffix(end) + dropped for end, dropped in _LINKING_LETTERS if letters.endswith(end))
        return max(filter(self._logs.__contains__, words), key=self._logs.__getitem__, default="")

    def _split(self, word: str) -> str:
        small = word.lower()
        *modifiers, head = self.split(small) or (small,)
        if not modifiers:
            return word
        cased = head if word == small else head[:1].upper() + head[1:]
        line = " ".join([*(modifier + PART_MARK for modifier in modifiers), cased])
        # Keep a word whole if joining its parts does not restore it, as for words in capitals.
        return line if join_parts(line) == word else word


def learn_merges(lines: Iterable[str], limit: int) -> list[tuple[str, str]]:
    """Learn up to `limit` merges from lines of words. The order of the lines does not matter."""
    counts = Counter(word for line in lines for word in split_tokens(line) if PART_MARK not in word)
    words = sorted(counts)
    parts = [list(word) for word in words]
    frequencies = [counts[word] for word in words]
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    words_by_pair: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, word_parts in enumerate(parts):
        for pair in pairwise(word_parts):
            pairs[pair] += frequencies[number]
            words_by_pair[pair].add(number)
    waiting = [(-count, pair) for pair, count in pairs.items() if count >= _MIN_PAIR_COUNT]
    heapq.heapify(waiting)
    merges: list[tuple[str, str]] = []
    while waiting and len(merges) < limit:
        count, pair = heapq.heappop(waiting)
        if -count != pairs[pair]:
            # The entry is out of date. Requeue the pair if it became rarer. If it became more frequent, it is already
            # queued with its new count.
            if -count > pairs[pair] >= _MIN_PAIR_COUNT:
                heapq.heappush(waiting, (-pairs[pair], pair))
            continue
        merges.append(pair)
        left, merged = pair[0], "".join(pair)
        changed: set[tuple[str, str]] = set()
        for number in sorted(words_by_pair.pop(pair)):
            word_parts, frequency = parts[number], frequencies[number]
            new_parts, k = [], 0
            while k < len(word_parts):
                joins = word_parts[k] == left and tuple(word_parts[k : k + 2]) == pair
                new_parts.append(merged if joins else word_parts[k])
                k += 1 + joins
            for old in pairwise(word_parts):
                pairs[old] -= frequency
            for new in pairwise(new_parts):
                pairs[new] += frequency
                if merged in new:
                    words_by_pair[new].add(number)
                    changed.add(new)
            parts[number] = new_parts
        del pairs[pair]
        for new_pair in changed:
            if pairs[new_pair] >= _MIN_PAIR_COUNT:
                heapq.heappush(waiting, (-pairs[new_pair], new_pair))
    return merges


def format_merges(merges: Iterable[tuple[str, str]]) -> str:
    """Format merges as a store setting: two parts, separated by a space, on each line."""
    return "\n".join(f"{left} {right}" for left, right in merges)


def measure_rare_share(lines: Sequence[str]) -> float:
    """Return the share of words that occur once, an estimate of the share of unknown words [Good 1953]."""
    # Sample texts to a similar length, because the share falls with the length.
    words = sum(line.count(" ") + 1 for line in lines)
    sample = lines[:: max(1, words // _SAMPLE)]
    counts = Counter(word for line in sample for word in line.split())
    return sum(count == 1 for count in counts.values()) / max(counts.total(), 1)


def choose_word_parts(sources: Sequence[str], targets: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Choose the setting `word_parts` of a store from tokenized lines. Returns the setting and a reason.

    Source words are split if compounds or rare words are frequent and more frequent than on the target side. Target
    words are kept whole. The setting is () if source words are kept whole as well.
    """
    rare_share, target_rare_share = measure_rare_share(sources), measure_rare_share(targets)
    counts = count_words(sources)
    compounds, target_compounds = measure_compounds(counts), measure_compounds(count_words(targets))
    parts, choice = "", "words are kept whole"
    if compounds > max(_MIN_COMPOUND_SHARE, _MIN_SHARE_RATIO * target_compounds):
        known = known_parts(counts)
        parts, choice = format_known_words(known), f"source compounds are split into {len(known):,} known words"
    elif rare_share > max(_MIN_RARE_SHARE, _MIN_SHARE_RATIO * target_rare_share):
        merges = learn_merges(sources, MAX_BPE_MERGES)
        parts, choice = format_merges(merges), f"source words are split into subwords by {len(merges):,} merges"
    rare = f"{rare_share:.1%} of the source words and {target_rare_share:.1%} of the target words"
    reason = f"{choice}: {rare} occur once in a sample, {compounds:.1%} and {target_compounds:.1%} are compounds"
    return (parts, "") if parts else (), reason


def format_known_words(counts: Mapping[str, int]) -> str:
    """Format known words as a store setting: a word, a tab and the frequency on each line."""
    return "\n".join(f"{word}\t{count}" for word, count in counts.items())


@cache
def make_segmenter(text: str) -> Segmenter:
    """Return the segmenter for a side's setting, from `format_merges` or `format_known_words`, or ""."""
    lines = [line for line in text.split("\n") if line]
    if "\t" in text:
        return CompoundSegmenter({word: int(count) for word, _, count in (line.partition("\t") for line in lines)})
    if not lines:
        return Segmenter()
    return SubwordSegmenter([(left, right) for left, _, right in (line.partition(" ") for line in lines)])


def spread_links(columns: LineColumns, indices: Iterable[int], source: Segmenter, target: Segmenter) -> None:
    """Split the words of lines into parts, and link all parts of linked words. Malformed lines are kept."""
    for k in indices:
        try:
            texts = columns.sources[k].decode(), columns.targets[k].decode()
            token_spans = part_spans(source.count_parts(texts[0])), part_spans(target.count_parts(texts[1]))
            line = columns.alignments[k]
            if line is not None:
                links = link_parts(parse_pharaoh(line), *token_spans)
                line = " ".join(f"{i}-{j}" for i, j in links).encode()
            if k in columns.known_links:
                parts = (frozenset(link_parts(links, *token_spans)) for links in columns.known_links[k])
                columns.known_links[k] = KnownLinks(*parts)
        except (UnicodeDecodeError, RejectionError, IndexError):
            continue
        columns.alignments[k] = line
        columns.sources[k] = source.split_line(texts[0]).encode()
        columns.targets[k] = target.split_line(texts[1]).encode()


def part_spans(counts: Sequence[int]) -> list[range]:
    """Return the token positions of each word, given the number of parts of each."""
    ends = list(accumulate(counts))
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def link_parts(links: Iterable[Link], source: Sequence[range], target: Sequence[range]) -> list[Link]:
    """Return the links between all tokens of linked words, given the token positions of each word."""
    return [(i, j) for s, t in sorted(links) for i in source[s] for j in target[t]]
