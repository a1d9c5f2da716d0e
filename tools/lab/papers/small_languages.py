"""Measure translation quality for small languages with rich morphology, after 1,000 or 4,000 verses.

    python -m hierogram.tools.lab.papers.small_languages bible-nt --languages sw,wo --train 1000 --work small

The folder contains files `nt.CODE` with one verse per line: `BOOK.CHAPTER.VERSE`, a tab, and raw text. Stores learn
verses of all books except Acts, and translate verses of Acts with the default weights and a language model of the
training verses. Each cell of the table is measured in a separate process. The same command continues an interrupted
run.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import hierogram as hg
from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.languages import learn_orthography
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.daemon.text.pipeline import TextPipeline, make_pipeline
from hierogram.daemon.text.segments import MAX_BPE_MERGES, format_merges, learn_merges
from hierogram.storage.options import Option
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.integrations.translation_memory import edit_distance
from hierogram.tools.lab.measures.results import (
    Figures,
    ResultCache,
    check_settings,
    peak_mb,
    run_in_process,
    save_figure,
    select_spaced,
)
from hierogram.tools.translation.text_translator import TextTranslator
from hierogram.tools.translation.translating import in_threads

ENGLISH = "en"
_BOOK = "ACT"
"""Book to translate: Acts."""
_MAX_TOKENS = 361
WORDS, SOURCE_PARTS, PARTS, CHOSEN = "words", "source-parts", "parts", "chosen"
METHODS: dict[str, tuple[int, int] | None] = {
    WORDS: (0, 0),
    SOURCE_PARTS: (MAX_BPE_MERGES, 0),
    PARTS: (MAX_BPE_MERGES, MAX_BPE_MERGES),
    CHOSEN: None,
}
"""Methods of segmentation: the maximum numbers of merges of the source side and of the target side.

None is for the store's choice, which depends on its first input.
"""


@dataclass(frozen=True, kw_only=True)
class SmallOptions:
    """Options of the table."""

    work: Annotated[Path, Option("Folder of all results; existing ones are reused.", metavar="FOLDER")]
    languages: Annotated[tuple[str, ...], Option("Language codes, except English.", metavar="CODES")] = (
        "sw", "wo", "jiv", "qu", "ppk",
    )  # fmt: skip
    train: Annotated[tuple[str, ...], Option("Numbers of training verses, separated by commas.", metavar="NUMBERS")] = (
        "1000",
        "4000",
    )
    methods: Annotated[tuple[str, ...], Option(f"Methods of segmentation: {', '.join(METHODS)}.", metavar="NAMES")] = (
        tuple(METHODS)
    )
    test: Annotated[int, Option("Number of verses to translate, evenly spaced.", min=1)] = 350
    seed: Annotated[int, Option("Seed of the training verses and of the store.", min=1)] = 1
    more_text: Annotated[
        int, Option("Number of further verses whose target sides are added to the language model.", min=0)
    ] = 0
    draft: Annotated[int, Option("Draft the first N verses of Acts and learn each block; 0 for none.", min=0)] = 0
    block: Annotated[int, Option("Number of verses of a block.", min=1)] = 10
    figure: Annotated[Path | None, Option("PNG file of the drafting curves.", metavar="FILE")] = None
    threads: Annotated[int, Option("Threads of each process.", min=1)] = 1

    def result_settings(self) -> dict[str, Any]:
        """Return the options that affect all results."""
        return {"test": self.test, "seed": self.seed, "more_text": self.more_text}


@dataclass(frozen=True, slots=True)
class Verses:
    """Pairs (source, target) of raw text for training and translation, and text for language models."""

    train: list[tuple[str, str]]
    test: list[tuple[str, str]]
    more_text: list[str]


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of the table: languages, number of training verses, and method of segmentation."""

    source: str
    target: str
    train: int
    method: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}, {self.train}, {self.method}"


def read_verses(folder: Path, language: str) -> dict[str, str]:
    """Return the nonempty verses of a language by name, such as `ACT.1.1`."""
    lines = (line.partition("\t") for line in read_sentences(str(folder / f"nt.{language}")))
    return {name: text for name, _, text in lines if text.strip()}


def split_verses(folder: Path, cell: Cell, options: SmallOptions, in_order: bool = False) -> Verses:
    """Return random training verses of other books, and test verses of Acts, evenly spaced or the first.

    Larger cells contain the training verses of smaller cells. Raises `UsageError` if there are too few verses.
    """
    source, target = (read_verses(folder, language) for language in (cell.source, cell.target))
    shared_verses = [name for name in source if name in target]
    book = [name for name in shared_verses if name.startswith(f"{_BOOK}.")]
    training_verses = [name for name in shared_verses if not name.startswith(f"{_BOOK}.")]
    if not book or len(training_verses) < cell.train:
        raise UsageError(
            f"{cell}: expected verses of {_BOOK} and {cell.train} verses of other books, "
            f"got {len(book)} and {len(training_verses)}"
        )
    random.Random(options.seed).shuffle(training_verses)
    test_verses = book[: options.draft] if in_order else select_spaced(book, options.test)
    train, test = (
        [(source[name], target[name]) for name in names] for names in (training_verses[: cell.train], test_verses)
    )
    further = training_verses[cell.train : cell.train + options.more_text]
    if len(further) < options.more_text:
        raise UsageError(f"{cell}: expected {options.more_text} further verses (--more-text), got {len(further)}")
    return Verses(train, test, [target[name] for name in further])


def score_plain_text(lines: list[str], references: list[str]) -> tuple[float, float]:
    """Return chrF++ and BLEU of raw text."""
    from sacrebleu import corpus_bleu, corpus_chrf

    return corpus_chrf(lines, [references], word_order=2).score, corpus_bleu(lines, [references]).score


def _learn_parts(pipeline: TextPipeline, train: Sequence[tuple[str, str]], merges: tuple[int, int]) -> tuple[str, ...]:
    """Return the setting `word_parts`, learned from training verses with up to `merges` merges per side."""
    sources, targets = zip(*train, strict=True)
    assert pipeline.rules is not None
    pipeline = replace(pipeline, orthographies=tuple(map(learn_orthography, pipeline.rules, (sources, targets))))
    sides = zip((pipeline.source, pipeline.target), (sources, targets), merges, strict=True)
    return tuple(format_merges(learn_merges(map(side.tokens, lines), limit)) for side, lines, limit in sides)


class _LearnedStore:
    """New store that has learned the training verses of a cell. `stack` closes it."""

    def __init__(self, cell: Cell, options: SmallOptions, train: Sequence[tuple[str, str]], stack: ExitStack) -> None:
        merges, self._threads = METHODS[cell.method], options.threads
        self._folder = options.work / str(cell).replace(", ", "-")
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob("*.db*"):
            old.unlink()
        settings = Settings(
            languages=(cell.source, cell.target), tokenize=True, max_tokens=_MAX_TOKENS, seed=options.seed
        )
        if merges is not None:
            settings = replace(settings, word_parts=_learn_parts(make_pipeline(settings), train, merges))
        opened = open_store(str(self._folder / "store.db"), create=True, settings=settings)
        self._store = store = stack.enter_context(hg.GrammarStore(opened, created=True))
        store.add(train)
        store.learn(threads=self._threads).run()

    def learn(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Add verses to the store, and run only their burn-in."""
        self._store.add(pairs)
        self._store.learn(0, threads=self._threads).run()

    def translator(self, more_text: Sequence[str] = ()) -> TextTranslator:
        """Return a translator that uses all learned verses. The language model also contains `more_text`."""
        if not more_text:
            return hg.Decoder(self._store).text_translator()
        texts = self._folder / "texts"
        texts.mkdir(exist_ok=True)
        write_lines(texts / "text", more_text)
        return hg.Decoder(self._store, lm=str(texts)).text_translator()

    def write(self, lines: Sequence[str], references: Sequence[str]) -> None:
        write_lines(self._folder / "output", lines)
        write_lines(self._folder / "reference", references)


def measure(folder: Path, cell: Cell, options: SmallOptions) -> Figures:
    """Learn the training verses, translate the test verses, and return the figures of a cell."""
    verses = split_verses(folder, cell, options)
    test, references = ([pair[side] for pair in verses.test] for side in (0, 1))
    started = time.process_time()
    with ExitStack() as stack:
        learned = _LearnedStore(cell, options, verses.train, stack)
        done_learning, learning_peak = time.process_time(), peak_mb()
        translate = learned.translator(verses.more_text).translate
        lines = [translation.text for translation in in_threads(translate, test, options.threads)]
        done = time.process_time()
    learned.write(lines, references)
    chrf, bleu = score_plain_text(lines, references)
    return {
        "chrf": chrf,
        "bleu": bleu,
        "length": sum(map(len, lines)) / sum(map(len, references)),
        "learn_seconds": done_learning - started,
        "translate_seconds": done - done_learning,
        "learn_mb": learning_peak,
        "mb": peak_mb(),
    }


def draft(folder: Path, cell: Cell, options: SmallOptions) -> Figures:
    """Translate the first verses of Acts block by block, and learn the references of each block.

    Returns chrF++ after each block and the saved share of typing, with and without learning, and the processor seconds
    of learning each block.
    """
    verses = split_verses(folder, cell, options, in_order=True)
    book, references = verses.test, [target for _, target in verses.test]
    blocks = [book[k : k + options.block] for k in range(0, len(book), options.block)]
    updated, unchanged, seconds = list[str](), list[str](), list[float]()
    with ExitStack() as stack:
        learned = _LearnedStore(cell, options, verses.train, stack)
        first = translator = learned.translator()

        def lines(translator: TextTranslator, block: Sequence[tuple[str, str]]) -> list[str]:
            return [translator.translate(source).text for source, _ in block]

        unchanged += [line for block in blocks for line in lines(first, block)]
        for block in blocks:
            updated += lines(translator, block)
            started = time.process_time()
            learned.learn(block)
            translator = learned.translator()
            seconds.append(time.process_time() - started)
    ends = [min(k + options.block, len(book)) for k in range(0, len(book), options.block)]
    return {
        "verses": ends,
        "updated": [score_plain_text(updated[:end], references[:end])[0] for end in ends],
        "unchanged": [score_plain_text(unchanged[:end], references[:end])[0] for end in ends],
        "updated_saved": saved_share(updated, references),
        "unchanged_saved": saved_share(unchanged, references),
        "seconds": seconds,
    }


def saved_share(lines: Sequence[str], references: Sequence[str]) -> float:
    """Return the saved share of typing: 1 minus edits per reference character.

    A line has at most as many edits as its reference has characters.
    """
    pairs = zip(lines, references, strict=True)
    edits = sum(min(edit_distance(line, reference), len(reference)) for line, reference in pairs)
    return 1 - edits / max(sum(map(len, references)), 1)


def _cells(options: SmallOptions) -> Iterator[Cell]:
    """Yield the cells of the table. Drafts are only from English."""
    for train, language in product(map(int, options.train), options.languages):
        directions = [(ENGLISH, language)] if options.draft else [(ENGLISH, language), (language, ENGLISH)]
        for (source, target), method in product(directions, options.methods):
            yield Cell(source, target, train, method)


@with_options
def main(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of the verses.")],
    options: SmallOptions,
) -> None:
    """Print translation quality, or with --draft the gain from learning each translated block."""
    if options.draft and options.more_text:
        raise UsageError("--more-text cannot be combined with --draft")
    options.work.mkdir(parents=True, exist_ok=True)
    check_settings(options.work / "settings.json", options.result_settings())
    cache, rows = ResultCache(options.work / "results.json"), list[tuple[Cell, Figures]]()
    for cell in _cells(options):
        if options.draft:
            name, work = f"{cell}, {options.draft} drafted by {options.block}", draft
        else:
            name, work = str(cell), measure
        rows.append((cell, cache.get_or_make(name, partial(run_in_process, work, folder, cell, options))))
    if options.draft:
        _print_drafts(rows)
        if options.figure is not None:
            _draw(rows, options.figure)
    else:
        _print_table(rows)


def _print_drafts(rows: Sequence[tuple[Cell, Figures]]) -> None:
    columns = ["direction", "training verses", "method", "drafted verses", "chrF++ updated", "chrF++ unchanged"]
    columns += ["typing saved, updated", "typing saved, unchanged", "CPU s per block"]
    cells = [
        [
            *(f"{cell.source}-{cell.target}", f"{cell.train:,}", cell.method, f"{figures['verses'][-1]:,}"),
            *(f"{figures[name][-1]:.2f}" for name in ("updated", "unchanged")),
            *(f"{100 * figures[name]:.1f} %" for name in ("updated_saved", "unchanged_saved")),
            f"{np.median(figures['seconds']):.1f}",
        ]
        for cell, figures in rows
    ]
    print_table(columns, cells, numeric=(1, *range(3, len(columns))))


def _draw(rows: Sequence[tuple[Cell, Figures]], path: Path) -> None:
    with save_figure(path, 1, len(rows), size=(3 * len(rows), 3), squeeze=False, sharex=True) as panels:
        for panel, (cell, figures) in zip(panels[0], rows, strict=True):
            panel.plot(figures["verses"], figures["updated"], label="learns each block")
            panel.plot(figures["verses"], figures["unchanged"], label="does not learn", linestyle="--")
            panel.set_title(f"{cell.source} to {cell.target}, {cell.train:,} verses", fontsize=9)
            panel.set_xlabel("verses drafted")
        panels[0][0].set_ylabel("chrF++ so far")
        panels[0][0].legend(fontsize=8)


def _print_table(rows: Sequence[tuple[Cell, Figures]]) -> None:
    columns = ["direction", "training verses", "method", "chrF++", "BLEU", "length ratio"]
    columns += ["CPU s to learn", "CPU s to translate", "peak MB after learning", "peak MB"]
    cells = [
        [
            f"{cell.source}-{cell.target}",
            f"{cell.train:,}",
            cell.method,
            f"{figures['chrf']:.2f}",
            f"{figures['bleu']:.2f}",
            f"{figures['length']:.2f}",
            *(f"{figures[name]:.0f}" for name in ("learn_seconds", "translate_seconds", "learn_mb", "mb")),
        ]
        for cell, figures in rows
    ]
    print_table(columns, cells, numeric=(1, *range(3, len(columns))))


if __name__ == "__main__":
    typer.run(main)
