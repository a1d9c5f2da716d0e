"""Figure 1 of [SA16]: translation quality of grammars extracted from the links of several aligners.

    python -m hierogram.tools.lab.papers.aligners corpus.fr corpus.en --work aligners --pairs 5000

Links are from one direction, with up to one target word for each source word, or from both directions, symmetrized by
grow-diag-final-and. Hiero's grammar is extracted from the links. Its phrases alone and the whole grammar translate with
separately tuned weights. The same command continues an interrupted run.
"""

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hierogram.daemon.cli.common import plural, print_note, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.learning.alignment.aligning import AlignedCorpus, align_sides, corpus_options
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.learning.stored_links import words_and_stems
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.alignment.models.registry import ALL_MODELS
from hierogram.samplers.alignment.options import GDFA
from hierogram.samplers.alignment.symmetrization import symmetrize
from hierogram.storage.options import Option
from hierogram.tools.alignment_scores import read_links
from hierogram.tools.lab.measures.results import BitextFile, time_call, write_json
from hierogram.tools.lab.papers.translations import (
    HIERO,
    MAX_SCOPE,
    START_STORE,
    Experiment,
    ExperimentOptions,
    GrammarFile,
    TranslationSystem,
    begin_experiment,
    ensure_store,
)
from hierogram.tools.translation.options import TranslateOptions

ALIGNERS = ("bhmm", "bhmm-z", *(name for name in ALL_MODELS if name not in ("bhmm", "bhmm-z")))
"""Aligners, with the models of the paper first."""
ONE, BOTH = "directional", "symmetrized"
"""Links of one direction, and symmetrized links of both directions."""
PHRASES = "phrases"
"""Name of the grammar of phrases, without rules of scope above 0."""


@dataclass(frozen=True, kw_only=True)
class FigureOptions(ExperimentOptions):
    """Options of the figure."""

    only: Annotated[tuple[str, ...], Option("Aligners to compare.", values=ALIGNERS, shown="all")] = ()
    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 5


@dataclass(frozen=True, slots=True)
class LinksRow:
    """Row of the table: an aligner with its links of one direction, or with symmetrized links.

    `seconds` is the processor time of both directions. `bleu` is BLEU by `PHRASES` and `HIERO`.
    """

    aligner: str
    symmetrization: str
    links: int
    phrases: int
    rules: int
    seconds: float
    bleu: dict[str, float]


class _Figure:
    def __init__(self, options: FigureOptions, experiment: Experiment) -> None:
        self._options, self._experiment = options, experiment
        source, target = map(Path, experiment.parts.files)
        self._files = source, target
        self._sides = read_side(read_sentences(str(source))), read_side(read_sentences(str(target)))
        self._cache = experiment.cache
        self._max_scopes = {PHRASES: 0, HIERO: MAX_SCOPE}

    def rows(self, aligner: str) -> list[LinksRow]:
        """Align in both directions. Returns a row for one direction's links, and a row for symmetrized links."""
        paths = {
            symmetrization: self._options.work / f"{aligner}-{symmetrization}.align" for symmetrization in (ONE, BOTH)
        }
        seconds = self._cache.get_or_make(f"{aligner}: seconds", partial(self._align, aligner, paths), paths[BOTH])
        return [self._row(aligner, symmetrization, path, seconds) for symmetrization, path in paths.items()]

    def _align(self, aligner: str, paths: dict[str, Path]) -> float:
        """Align the training pairs, write the links by symmetrization, and return processor seconds."""
        options = corpus_options(AlignOptions(model=aligner), len(self._sides[0].offset) - 1)
        spent, (directions, *_) = time_call(
            lambda: align_sides(words_and_stems(*self._sides), options, threads=1), time.process_time
        )
        target_links, source_links = directions
        offsets = [side.offset for side in self._sides]
        no_links = np.full(len(target_links), -1, np.int16)
        links_by_name = {
            ONE: symmetrize("union", no_links, source_links, *offsets),
            BOTH: symmetrize(GDFA, target_links, source_links, *offsets),
        }
        for symmetrization, links in links_by_name.items():
            no_scores = np.zeros(len(links.source), np.float32)
            write_lines(paths[symmetrization], AlignedCorpus(links, no_scores).lines())
        number = plural(len(links_by_name[BOTH].source), "symmetrized link")
        print_note(f"{aligner}: {number}, {spent:.0f} s of processor time")
        return spent

    def _row(self, aligner: str, symmetrization: str, path: Path, seconds: float) -> LinksRow:
        folder = self._options.work / f"{aligner}-{symmetrization}"
        folder.mkdir(exist_ok=True)
        system = TranslationSystem(f"{aligner}, {symmetrization}", START_STORE, heuristic=True)
        grammar = folder / "hiero.cdec"

        def extract() -> list[int]:
            files = [*map(str, self._files), str(path)]
            url = ensure_store(folder, START_STORE, files, self._options.threads)
            return self._experiment.export_grammar(system, url, grammar)

        by_scope = self._cache.get_or_make(f"{system.name}: rules by scope", extract, grammar)
        grammar_file = GrammarFile(system, grammar, by_scope)
        bleu = {
            name: self._cache.get_or_make(f"{system.name}, {name}: BLEU", partial(self._bleu, grammar_file, scope))
            for name, scope in self._max_scopes.items()
        }
        links = sum(map(len, read_links(str(path))))
        rules = sum(by_scope[: MAX_SCOPE + 1])
        return LinksRow(aligner, symmetrization, links, by_scope[0], rules, seconds, bleu)

    def _bleu(self, grammar_file: GrammarFile, scope: int) -> float:
        resources = self._experiment.load_resources(TranslateOptions(max_scope=scope))
        return self._experiment.tune_and_score(resources, grammar_file, self._options.iterations)


@with_options
def main(
    source: BitextFile,
    target: BitextFile,
    options: FigureOptions,
) -> None:
    """Align with each aligner, extract grammars, and print their sizes and BLEU."""
    figure = _Figure(options, begin_experiment([str(source), str(target)], options))
    rows = [row for aligner in options.only or ALIGNERS for row in figure.rows(aligner)]
    write_json(options.work / "figure1.json", [asdict(row) for row in rows])
    base = "bhmm" if any(row.aligner == "bhmm" for row in rows) else rows[0].aligner
    base_links = {row.symmetrization: row.links for row in rows if row.aligner == base}
    columns = ["aligner", "symmetrization", "links", f"of {base}'s links", "phrases", "rules", "CPU minutes"]
    columns += [f"BLEU, {kind}" for kind in (PHRASES, HIERO)]
    cells = []
    for row in rows:
        share = f"{row.links / base_links[row.symmetrization]:.0%}"
        numbers = f"{row.links:,}", share, f"{row.phrases:,}", f"{row.rules:,}", f"{row.seconds / 60:.1f}"
        bleu = (f"{row.bleu[name]:.2f}" for name in (PHRASES, HIERO))
        cells.append([row.aligner, row.symmetrization, *numbers, *bleu])
    print_table(columns, cells, numeric=range(2, len(columns)))


if __name__ == "__main__":
    typer.run(main)
