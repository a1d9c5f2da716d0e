"""Compare translations of grammars learned from raw pairs by the ITG, with and without phrases.

    python -m hierogram.tools.lab.papers.itg_phrases corpus.fr corpus.en --work phrases --pairs 2600 --tuning 200

For each maximum phrase length, a store learns the pairs without links, and its posterior means translate the held-out
sentences with separately tuned weights. BLEU is compared with BLEU of the first phrase length. The same command
continues an interrupted run.
"""

import time
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.lines import write_lines
from hierogram.daemon.text.reading import Input
from hierogram.samplers.grammar.settings import ITG
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import time_call
from hierogram.tools.lab.papers.translations import (
    Experiment,
    ExperimentOptions,
    GrammarFile,
    TranslationSystem,
    begin,
    time_translations,
)
from hierogram.tools.translation.options import TranslateOptions


@dataclass(frozen=True, kw_only=True)
class PhraseOptions(ExperimentOptions):
    """Options of the table."""

    phrases: Annotated[tuple[str, ...], Option("Maximum phrase lengths; may be repeated.", metavar="NUMBERS")] = (
        "1",
        "2",
        "3",
    )
    sweeps: Annotated[int, Option("Sweeps after the burn-in.", min=1)] = 74
    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 5

    def result_settings(self) -> dict[str, Any]:
        """Return the options that affect all results."""
        return {name: value for name, value in super().result_settings().items() if name != "phrases"}


def learn_grammar(experiment: Experiment, max_words: int, phrase_options: PhraseOptions) -> GrammarFile:
    """Learn a grammar with phrases of up to `max_words` words in a new store, and export it. Cached."""
    system = TranslationSystem(f"phrases of {max_words}", f"itg-{max_words}", CountKind.POSTERIOR_MEAN, features=None)
    path = experiment.folder / f"{system.store}.cdec"

    def make() -> list[Any]:
        database = experiment.folder / f"{system.store}.db"
        database.unlink(missing_ok=True)
        url = f"sqlite:///{database.absolute()}"
        with open_store(url, create=True, settings=Settings(grammar=ITG, phrase_words=max_words)) as store:
            with Input(experiment.parts.files[:2]) as source:
                ingest(store, source)
            with progress(f"learn, {system.name}", "pairs") as bar:
                options = LearnOptions(threads=1, report=lambda now: bar.update(now.done, now.total, now.done))
                seconds, _ = time_call(
                    lambda: learn(store, sweeps=phrase_options.sweeps, options=options), time.process_time
                )
        return [experiment.write(system, url, path), seconds]

    return GrammarFile(system, path, *experiment.cache.find(f"{system.name}: rules by scope, seconds", make, path))


def translate(experiment: Experiment, grammar: GrammarFile, phrase_options: PhraseOptions) -> float:
    """Tune weights for a grammar, and translate the test sentences. Returns processor seconds per sentence. Cached."""

    def make() -> float:
        options = TranslateOptions(pops=phrase_options.pops, max_scope=phrase_options.max_scope)
        resources = experiment.load_resources(options)
        weights, _ = experiment.tune_weights(resources, grammar, phrase_options.iterations)
        resources = replace(resources, weights=weights)
        lines, seconds = time_translations(
            resources.translator(resources.grammar(str(grammar.file)), weights), experiment.parts.test.sources, 1
        )
        write_lines(grammar.output, lines)
        return seconds

    mean_seconds: float = experiment.cache.find(f"{grammar.system.name}: seconds a sentence", make, grammar.output)
    return mean_seconds


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET", help="A tokenized bitext.")],
    options: PhraseOptions,
) -> None:
    """Learn an ITG for each maximum phrase length, and print translation quality."""
    if len(files) != len(("source", "target")):
        raise UsageError(f"expected two files of a bitext, got {len(files)}")
    experiment = begin(files, options)
    grammars = [learn_grammar(experiment, int(phrase), options) for phrase in options.phrases]
    seconds = [translate(experiment, grammar, options) for grammar in grammars]
    rows = []
    for grammar, spent, score in zip(grammars, seconds, experiment.score_bleu(grammars), strict=True):
        p = "" if score.p is None else f"{score.p:.3f}"
        bleu = f"{score.score:.2f} ± {(score.high - score.low) / 2:.2f}"
        rows.append([score.name, f"{sum(grammar.by_scope):,}", f"{grammar.seconds:.1f}", f"{1e3 * spent:.2f}", bleu, p])
    print_table(["grammar", "rules", "learning s", "ms per sentence", "BLEU", "p"], rows)


if __name__ == "__main__":
    typer.run(main)
