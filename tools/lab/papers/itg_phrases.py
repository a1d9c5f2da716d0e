"""Compare translations of grammars learned from raw pairs by the ITG, with and without phrases.

    python -m hierogram.tools.lab.papers.itg_phrases corpus.fr corpus.en --work phrases --pairs 2600 --tuning 200

For each maximum phrase length, a store learns the pairs without links, and its posterior means translate the held-out
sentences with separately tuned weights. BLEU is compared with BLEU of the first phrase length. The same command
continues an interrupted run.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.grammar.settings import ITG
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import BitextFile, time_call
from hierogram.tools.lab.papers.translations import (
    Experiment,
    ExperimentOptions,
    GrammarFile,
    TranslationSystem,
    begin_experiment,
    format_bleu,
    format_p,
)
from hierogram.tools.translation.options import TranslateOptions


@dataclass(frozen=True, kw_only=True)
class PhraseOptions(ExperimentOptions):
    """Options of the table."""

    phrases: Annotated[tuple[str, ...], Option("Maximum phrase lengths; may be repeated.", metavar="NUMBERS")] = (
        "1", "2", "3",
    )  # fmt: skip
    sweeps: Annotated[int, Option("Sweeps after the burn-in.", min=1)] = 74
    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 5


def learn_grammar(experiment: Experiment, max_words: int, sweeps: int) -> tuple[GrammarFile, float]:
    """Learn a grammar with phrases of up to `max_words` words in a new store, and export it. Cached.

    `sweeps` is the number of sweeps after the burn-in. Returns the grammar, and the processor seconds of learning.
    """
    system = TranslationSystem(f"phrases of {max_words}", f"itg-{max_words}", CountKind.POSTERIOR_MEAN, features=None)
    path = experiment.folder / f"{system.store}.cdec"

    def make() -> list[Any]:
        database = experiment.folder / f"{system.store}.db"
        database.unlink(missing_ok=True)
        url = f"sqlite:///{database.absolute()}"
        with open_store(url, create=True, settings=Settings(grammar=ITG, phrase_words=max_words)) as store:
            with PairFiles(experiment.parts.files) as source:
                ingest(store, source)
            with progress(f"learn, {system.name}", "pairs") as bar:
                options = LearnOptions(threads=1, report=lambda now: bar.update(now.done, now.total, now.done))
                seconds, _ = time_call(lambda: learn(store, sweeps=sweeps, options=options), time.process_time)
        return [experiment.export_grammar(system, url, path), seconds]

    by_scope, seconds = experiment.cache.get_or_make(f"{system.name}: rules by scope, seconds", make, path)
    return GrammarFile(system, path, by_scope), seconds


@with_options
def main(
    source: BitextFile,
    target: BitextFile,
    options: PhraseOptions,
) -> None:
    """Learn an ITG for each maximum phrase length, and print translation quality."""
    experiment = begin_experiment([str(source), str(target)], options)
    learned = [learn_grammar(experiment, int(max_words), options.sweeps) for max_words in options.phrases]
    grammars = [grammar for grammar, _ in learned]
    resources = experiment.load_resources(TranslateOptions())
    seconds: list[float] = []
    for grammar in grammars:
        name = f"{grammar.system.name}: seconds a sentence"
        translate = partial(experiment.translate_tuned, resources, grammar, options.iterations)
        seconds.append(experiment.cache.get_or_make(name, translate, grammar.output))
    rows = []
    scores = experiment.score_bleu(grammars)
    for (grammar, learning_seconds), spent, score in zip(learned, seconds, scores, strict=True):
        figures = f"{sum(grammar.by_scope):,}", f"{learning_seconds:.1f}", f"{1e3 * spent:.2f}"
        rows.append([score.name, *figures, format_bleu(score), format_p(score.p)])
    print_table(["grammar", "rules", "CPU s to learn", "CPU ms per sentence", "BLEU", "p against the first"], rows)


if __name__ == "__main__":
    typer.run(main)
