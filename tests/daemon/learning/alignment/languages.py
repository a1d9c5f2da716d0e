"""Corpora in invented languages."""

from random import Random


def invented_corpus(pairs: int, seed: int = 1) -> tuple[list[str], list[str], list[str]]:
    """Return source sentences, word-by-word translations and true links.

    About half of the translations have two adjacent words swapped, and about 30 % end with an unlinked word.
    """
    random = Random(seed)
    source, target, gold = [], [], []
    for _ in range(pairs):
        words = [random.randrange(60) for _ in range(random.randint(3, 9))]
        order = list(range(len(words)))
        if random.random() < 0.5:
            k = random.randrange(len(words) - 1)
            order[k], order[k + 1] = order[k + 1], order[k]
        source.append(" ".join(f"s{word}" for word in words))
        translated = [f"t{words[k]}" for k in order]
        if random.random() < 0.3:
            translated.append("euh")
        target.append(" ".join(translated))
        gold.append(" ".join(sorted(f"{s}-{t}" for t, s in enumerate(order))))
    return source, target, gold
