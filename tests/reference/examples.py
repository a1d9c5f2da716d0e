"""Small sentence pairs for the proofs, and random pairs."""

from random import Random

from tests.reference.forest import Forest, Link, Node, direct_forest

RandomPair = tuple[tuple[str, ...], tuple[str, ...], set[Link]]
"""Source words, target words, links."""


def parse_links(text: str) -> set[Link]:
    """Return links from a Pharaoh line, `0-0 1-2`."""
    return {(int(s), int(t)) for s, _, t in (link.partition("-") for link in text.split())}


def pair(source: str, target: str, links: str | None = None) -> Forest:
    """Return the forest of a pair, linked word by word by default."""
    f, e = tuple(source.split()), tuple(target.split())
    return direct_forest(f, e, {(i, i) for i in range(len(f))} if links is None else parse_links(links))


SINGLE = pair("a", "A")
COUPLE = pair("a b", "A B")
SWAPPED = pair("a b", "B A", "0-1 1-0")
TWICE = pair("a a", "A A")
TWICE_APART = pair("a b a", "A B A")
THREE = pair("a b c", "A B C")
FOUR = pair("a b c d", "A B C D")
UNALIGNED = pair("u a x b v", "A y B z", "1-0 3-2")
TANGLED = pair("a b c d", "B D A C", "0-2 1-0 2-3 3-1")
DISCONTINUOUS = pair("a b c d", "A B C D", "0-0 2-0 1-1 3-3")
BLOCKS = pair("a a b c c d", "A A B C C D", "0-0 0-1 1-0 1-1 2-2 3-3 3-4 4-3 4-4 5-5")
"""Four consecutive phrases, two of them two words wide."""
WIDE = pair("a b c c c d d d", "A B C C C D D D", "0-0 1-1 2-2 2-4 4-2 4-4 5-5 5-7 7-5 7-7")
"""Four consecutive phrases, the last two of them three words wide."""
UNLINKED = pair("a b", "A", "")


def ladder(rungs: int) -> Forest:
    """Return a forest with a node for each common suffix of two sentences of `rungs` words.

    The rule of each node has one word on each side and the node of the next shorter suffix.
    """
    spans = [(rungs - 1 - k, rungs) for k in range(rungs)]
    nodes = [Node(span, span, (((k - 1,) if k else ()),), k + 1) for k, span in enumerate(spans)]
    return Forest(("a",) * rungs, ("A",) * rungs, tuple(nodes))


def random_pair(random: Random, longest: int, words: str = "abcdefg") -> RandomPair:
    """Return a random pair with up to `longest` words on each side: mostly a near-permutation with unaligned words."""
    if random.random() < 0.3:
        n, m = random.randint(1, longest), random.randint(1, longest)
        links = {(random.randrange(n), random.randrange(m)) for _ in range(random.randrange(n + m))}
    else:
        aligned = random.randint(1, longest)
        n, m = random.randint(aligned, longest), random.randint(aligned, longest)
        source = sorted(random.sample(range(n), aligned))
        target = sorted(random.sample(range(m), aligned))
        for _ in range(random.choice((0, 1, 1, 2, aligned))):
            i, j = random.randrange(aligned), random.randrange(aligned)
            target[i], target[j] = target[j], target[i]
        links = set(zip(source, target, strict=True))
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            links.add((random.randrange(n), random.randrange(m)))
    return random_text(random, n, words), random_text(random, m, words.upper()), links


def random_text(random: Random, length: int, words: str) -> tuple[str, ...]:
    """Return words drawn uniformly from the vocabulary. A small vocabulary gives repeats."""
    return tuple(random.choice(words) for _ in range(length))


def random_pairs(seed: int, count: int, longest: int, words: str = "abcdefg") -> list[RandomPair]:
    random = Random(seed)
    return [random_pair(random, longest, words) for _ in range(count)]
