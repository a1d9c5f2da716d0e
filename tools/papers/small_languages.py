"""Small languages: what is translated after a thousand verses, or four thousand, of a language with rich morphology.

    python -m hierogram.tools.papers.small_languages ../shared/data/bible-nt --languages sw,wo --train 1000 --work small

The folder holds `nt.CODE`: a verse a line, `BOOK.CHAPTER.VERSE`, a tab, and raw text. Verses are drawn from all books
but one, and verses of that one are translated, with the built-in weights and a language model of the verses that were
learned from. Each cell of the table has a process of its own; what is found is kept in the folder, and the same command
goes on where it was interrupted.
"""

import multiprocessing
import random
import resource
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import hierogram as hg
from hierogram.daemon.commands.common import print_table
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.corpora.lines import read_sentences, write_lines
from hierogram.daemon.corpora.texts import pipeline_of
from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Option
from hierogram.storage.records import JOINS
from hierogram.tools.measures.results import Figures, Kept, check_settings

ENGLISH = "en"
_LONGEST = 361
_NGRAM = 4


@dataclass(frozen=True, slots=True)
class Way:
    """A way to learn and to translate: options of the decoder, order of the language model, joins that make parts of
    words (0: words stay whole)."""

    decoder: dict[str, Any]
    order: int = 3
    joins: int = 0


WORDS, FITTED, PARTS = "words", "fitted", "parts"
"""The way of large stores: words, and what is not known is copied; the same with known words that stand in for unknown
ones, and lengths that are fitted; parts of words."""
WAYS = {
    WORDS: Way({"alike": 0.0}),
    FITTED: Way({"fit_length": True}),
    PARTS: Way({}, joins=JOINS),
}


@dataclass(frozen=True, kw_only=True)
class SmallOptions:
    """Options of the table."""

    work: Annotated[Path, Option("Folder for all that is made; what is there already is taken.", metavar="FOLDER")]
    languages: Annotated[tuple[str, ...], Option("Languages beside English, by their codes.", metavar="CODES")] = (
        "sw", "wo", "jiv", "qu", "ppk",
    )  # fmt: skip
    train: Annotated[tuple[str, ...], Option("Verses to learn from, several numbers.", metavar="NUMBERS")] = (
        "1000", "4000",
    )  # fmt: skip
    ways: Annotated[tuple[str, ...], Option("Ways to do it.", metavar="NAMES")] = tuple(WAYS)
    book: Annotated[str, Option("The book that is translated.")] = "ACT"
    test: Annotated[int, Option("Verses of it, evenly spaced.", least=1)] = 350
    seed: Annotated[int, Option("Seed of what is drawn to learn from, and of the store.", least=1)] = 1
    threads: Annotated[int, Option("Threads of each process.", least=1)] = 1

    def of_results(self) -> dict[str, Any]:
        """Return the options that each result depends on."""
        return {"book": self.book, "test": self.test, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class Verses:
    """Raw text to learn from and to translate, source and target each."""

    train: list[tuple[str, str]]
    test: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured at once: a direction, verses to learn from, a way."""

    source: str
    target: str
    train: int
    way: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}, {self.train}, {self.way}"


def read_verses(folder: Path, language: str) -> dict[str, str]:
    """Return the verses of a language by their names."""
    lines = (line.partition("\t") for line in read_sentences(str(folder / f"nt.{language}")))
    return {name: text for name, _, text in lines if text.strip()}


def divided(folder: Path, cell: Cell, wanted: SmallOptions) -> Verses:
    """Return the verses that both languages have: some drawn from other books, and some of the test's book."""
    source, target = (read_verses(folder, language) for language in (cell.source, cell.target))
    both = [name for name in source if name in target]
    book = [name for name in both if name.startswith(f"{wanted.book}.")]
    others = [name for name in both if not name.startswith(f"{wanted.book}.")]
    if not book or len(others) < cell.train:
        raise UsageError(f"{cell}: there are {len(book)} verses of {wanted.book}, and {len(others)} others")
    random.Random(wanted.seed).shuffle(others)
    most = min(wanted.test, len(book))
    evenly = [book[k * len(book) // most] for k in range(most)]
    return Verses(*([(source[name], target[name]) for name in names] for names in (others[: cell.train], evenly)))


class PlainText:
    """Divides raw text into tokens, and joins them again, by the rules of English for all languages."""

    def __init__(self) -> None:
        from sacremoses import MosesDetokenizer, MosesTokenizer

        self._divided, self._joined = MosesTokenizer(lang=ENGLISH), MosesDetokenizer(lang=ENGLISH)

    def tokens(self, text: str) -> str:
        """Return the tokens of a text, with spaces between them."""
        return str(self._divided.tokenize(text, return_str=True, escape=False))

    def text(self, tokens: str) -> str:
        """Return the text of tokens."""
        return str(self._joined.detokenize(tokens.split(), unescape=False))


def of_plain_text(lines: list[str], references: list[str]) -> tuple[float, float]:
    """Return chrF++ and BLEU of raw text."""
    from sacrebleu import corpus_bleu, corpus_chrf

    return corpus_chrf(lines, [references], word_order=2).score, corpus_bleu(lines, [references]).score


def _ngrams(lines: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    for line in lines:
        words = line.split()
        yield from zip(*(words[k:] for k in range(size)), strict=False)


def overlap(train: Sequence[str], test: Sequence[str], size: int) -> float:
    """Return the share of the test's n-grams of a size that the training text has, too."""
    known = {*_ngrams(train, size)}
    found = [ngram in known for ngram in _ngrams(test, size)]
    return sum(found) / max(len(found), 1)


def measure(folder: Path, cell: Cell, wanted: SmallOptions) -> Figures:
    """Learn, translate, and compare with the references; returns the figures of a cell."""
    way, verses, plain = WAYS[cell.way], divided(folder, cell, wanted), PlainText()
    train = [(plain.tokens(source), plain.tokens(target)) for source, target in verses.train]
    test = [plain.tokens(source) for source, _ in verses.test]
    references = [target for _, target in verses.test]
    own = wanted.work / str(cell).replace(", ", "-")
    own.mkdir(parents=True, exist_ok=True)
    for old in own.glob("*.db*"):
        old.unlink()
    started = time.process_time()
    with ExitStack() as stack:
        store = stack.enter_context(hg.open(own / "store.db", create=True, max_tokens=_LONGEST, seed=wanted.seed))
        store.add(train)
        if way.joins:
            store = stack.enter_context(store.in_parts(own / "parts.db", joins=way.joins))
        texts = pipeline_of(store.settings())
        write_lines(own / "target", (texts.target.tokens(target) for _, target in train))
        store.learn(threads=wanted.threads).run()
        learned = time.process_time()
        learning_peak = _peak_mb()
        hg.lm(own / "target", own / "target.lm", order=way.order)
        decoder = hg.Decoder(store, lm=own / "target.lm", **way.decoder)
        outputs = [found.text for found in decoder.translate_all(test, threads=wanted.threads)]
    done = time.process_time()
    lines = [plain.text(output) for output in outputs]
    write_lines(own / "output", lines)
    write_lines(own / "reference", references)
    chrf, bleu = of_plain_text(lines, references)
    sources = [source for source, _ in train]
    return {
        "chrf": chrf,
        "bleu": bleu,
        "unknown": 1 - overlap(sources, test, 1),
        "overlap": overlap(sources, test, _NGRAM),
        "length": sum(map(len, lines)) / sum(map(len, references)),
        "learn_seconds": learned - started,
        "translate_seconds": done - learned,
        "learn_mb": learning_peak,
        "mb": _peak_mb(),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _apart(folder: Path, cell: Cell, wanted: SmallOptions) -> Figures:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, folder, cell, wanted).result()


@with_options
def main(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of the verses.")],
    wanted: SmallOptions,
) -> None:
    """Measure, and print the table."""
    wanted.work.mkdir(parents=True, exist_ok=True)
    check_settings(wanted.work / "settings.json", wanted.of_results())
    kept = Kept(wanted.work / "found.json")
    rows = []
    for train in map(int, wanted.train):
        for language in wanted.languages:
            for source, target in ((ENGLISH, language), (language, ENGLISH)):
                for way in wanted.ways:
                    cell = Cell(source, target, train, way)
                    rows.append((cell, kept.find(str(cell), partial(_apart, folder, cell, wanted))))
    _say(rows)


def _say(rows: Sequence[tuple[Cell, Figures]]) -> None:
    columns = ["direction", "verses", "way", "chrF++", "BLEU", "unknown", "4-grams known", "length"]
    columns += ["s to learn", "s to translate", "MB to learn", "MB"]
    cells = [
        [
            f"{cell.source}-{cell.target}",
            f"{cell.train:,}",
            cell.way,
            f"{found['chrf']:.2f}",
            f"{found['bleu']:.2f}",
            f"{100 * found['unknown']:.1f} %",
            f"{100 * found['overlap']:.1f} %",
            f"{found['length']:.2f}",
            *(f"{found[name]:.0f}" for name in ("learn_seconds", "translate_seconds", "learn_mb", "mb")),
        ]
        for cell, found in rows
    ]
    print_table(columns, cells, numeric=(1, *range(3, len(columns))))


if __name__ == "__main__":
    typer.run(main)
