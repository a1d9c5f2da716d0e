"""ARPA files as different programs write them, and silent progress."""

from pathlib import Path
from random import Random

from tests.reference.language_models.backoff import Model

from hierogram.tools.translation.language_models import ModelWithVocabulary, read_arpa

KENLM = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.0986123\t<unk>\t0
0\t<s>\t-0.30103
-0.69314718\t</s>\t0
-0.9\tla\t-0.2
-0.8\tmaison\t-0.1

\\2-grams:
-0.4\t<s> la\t-0.15
-0.5\tla maison\t-0.25
-0.6\tmaison </s>\t0
-0.7\tmaison la\t0

\\3-grams:
-0.05\t<s> la maison
-0.06\tla maison </s>

\\end\\
"""

SRILM = """
\\data\\
ngram 1=4
ngram 2=4
ngram 3=2

\\1-grams:
-0.69314718\t</s>
-99\t<s>\t-0.30103
-0.9\tla\t-0.2
-0.8\tmaison\t-0.1

\\2-grams:
-0.4\t<s> la\t-0.15
-0.5\tla maison\t-0.25
-0.6\tmaison </s>
-0.7\tmaison la

\\3-grams:
-0.05\t<s> la maison
-0.06\tla maison </s>

\\end\\
"""

IRSTLM = """\\data\\
ngram  1=        5
ngram  2=        4
ngram  3=        2


\\1-grams:
-99\t<s>\t-0.30103
-0.9\tla\t-0.2
-0.8\tmaison\t-0.1
-0.69314718\t</s>
-1.0986123\t<unk>


\\2-grams:
-0.4\t<s> la\t-0.15
-0.5\tla maison\t-0.25
-0.6\tmaison </s>
-0.7\tmaison la


\\3-grams:
-0.05\t<s> la maison
-0.06\tla maison </s>
\\end\\
"""


class Quiet:
    """Progress display that prints nothing."""

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        pass


def read_text(folder: Path, text: str | bytes) -> ModelWithVocabulary:
    """Return the model of an ARPA file with this text."""
    path = folder / "model.arpa"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_arpa(str(path), Quiet())


def format_arpa(model: Model, names: list[str], random: Random) -> str:
    """Return a reference model as an ARPA file with shuffled n-grams."""
    by_order = [[gram for gram in model.log10 if len(gram) == k + 1] for k in range(model.order)]
    lines = ["\\data\\", *(f"ngram {k + 1}={len(grams)}" for k, grams in enumerate(by_order))]
    for k, grams in enumerate(by_order):
        random.shuffle(grams)
        lines += ["", f"\\{k + 1}-grams:"]
        for gram in grams:
            weight = f"\t{model.backoff[gram]:.7f}" if gram in model.backoff else ""
            lines.append(f"{model.log10[gram]:.7f}\t{' '.join(names[w] for w in gram)}{weight}")
    return "\n".join([*lines, "", "\\end\\", ""])
