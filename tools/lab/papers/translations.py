"""Comparisons of grammars of one bitext by their translations. Results are cached in a folder."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from hierogram.daemon.cli.common import plural, print_note
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.loading import load_pair_uses
from hierogram.daemon.exports.options import MIN_EXPECTED, ExportOptions
from hierogram.daemon.exports.scratch import load_rules, open_scratch
from hierogram.daemon.files import open_output
from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.learning.kinds.pairs import LoadedPairs
from hierogram.daemon.learning.learner import Learner, LearnOptions, ResidentBatch, read_batches
from hierogram.daemon.learning.learning import ALIGNED_STATES, learn
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.alignment.options import GDFA
from hierogram.samplers.forests.averages import add_trees
from hierogram.samplers.grammar.settings import DIRICHLET, PAPER, QUICK
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.comparison.comparing import ADMITTED
from hierogram.tools.lab.comparison.heuristic_export import export_heuristic
from hierogram.tools.lab.comparison.pruning import Pruning
from hierogram.tools.lab.measures.results import ResultCache, check_settings, select_spaced, time_call
from hierogram.tools.translation.estimation import build_model
from hierogram.tools.translation.evaluation import MetricScores, SystemScore, evaluate
from hierogram.tools.translation.grammars import TranslationGrammar, read_weights, toml_table
from hierogram.tools.translation.options import EstimationOptions, EvaluationOptions, TranslateOptions, TuningOptions
from hierogram.tools.translation.resources import TranslationResources, load_resources
from hierogram.tools.translation.translating import Translator, in_threads
from hierogram.tools.translation.tuning import tune
from hierogram.tools.translation.tuning_runs import GrammarDecoder

FEATURES = ("p_target_given_source", "p_source_given_target", "lex_target_given_source", "lex_source_given_target")
"""Features that sampled and heuristic grammars have in common."""

START_STORE, SAMPLES_STORE, DEFAULT_STORE = "start", "samples", "default"
DIRICHLET_STORE, DIRICHLETS_STORE = "dirichlet", "dirichlets"
"""Names of stores, for `ensure_store`.

The initial state without averages; means of the initial state and the states after each level of the schedule `paper`;
a store with default settings; one Dirichlet process for all rules; and a Dirichlet process for each rule length.
"""
_STORE_SETTINGS: dict[str, dict[str, Any]] = {
    START_STORE: {"schedule": PAPER},
    SAMPLES_STORE: {"schedule": PAPER},
    # With a stratified schedule, one Dirichlet process for all lengths would keep the short rules of early sweeps.
    DIRICHLET_STORE: {"model": DIRICHLET, "schedule": QUICK},
    DIRICHLETS_STORE: {"discount": 0.0},
}
"""Settings that differ from the default settings, by name of the store."""

MAX_SCOPE = TranslateOptions().max_scope
_MAX_WORDS = 29
"""Maximum number of words of a held-out sentence."""
HIERO, AVERAGED, MEANS = "Hiero", "averaged", "posterior means"
_WORD_FEATURE = "words"
"""Name of the feature whose value is the number of target words."""
_MAX_BISECTIONS = 8
_LM_ORDER = 3
_NOT_IN_RESULTS = ("work", "threads", "chains", "phrases", "only", "figure")
"""Options of all comparisons that do not change a cached result, but select results or the speed."""


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options of every comparison of translations."""

    work: Annotated[Path, Option("Folder of all results; existing ones are reused.", metavar="FOLDER")]
    tuning: Annotated[int, Option("Number of tuning sentences.", min=1)] = 400
    test: Annotated[int, Option("Number of test sentences.", min=1)] = 400
    references: Annotated[int, Option("Minimum number of references of a test sentence.", min=1)] = 1
    pairs: Annotated[int | None, Option("Number of pairs to use, evenly spaced.", min=1, shown="all")] = None
    threads: Annotated[int, Option("Threads of learning and tuning.", min=1)] = 2

    def result_settings(self) -> dict[str, Any]:
        """Return the options that affect all results."""
        return {name: value for name, value in asdict(self).items() if name not in _NOT_IN_RESULTS}


@dataclass(frozen=True, slots=True)
class TranslationSystem:
    """Grammar to compare: its name, the name of its store, and options of its export.

    `hiero` keeps only rules within Hiero's constraints. `heuristic` exports the heuristic grammar of the store's pairs,
    which omits rare rules if `singletons` is False.
    """

    name: str
    store: str
    count_kind: CountKind = CountKind.POSTERIOR_MEAN
    hiero: bool = False
    heuristic: bool = False
    singletons: bool = True
    # None for all features.
    features: tuple[str, ...] | None = FEATURES
    # None for the default of exports.
    smoothing: float | None = None
    # Selection of rules of a heuristic grammar.
    pruning: Pruning | None = None
    seed: int = 1

    @property
    def full_name(self) -> str:
        """Name of the grammar, followed by the number of its chain, which is the seed, unless it is 1."""
        return self.name if self.seed == 1 else f"{self.name}, chain {self.seed}"


@dataclass(frozen=True, slots=True)
class GrammarFile:
    """Grammar file filtered for held-out sentences. `by_scope` counts rules by scope before filtering."""

    system: TranslationSystem
    file: Path
    by_scope: list[int]

    @property
    def output(self) -> Path:
        """File of the translations of the test sentences, which exists after translating."""
        return self.file.with_suffix(".out")


@dataclass(frozen=True, slots=True)
class HeldOutPairs:
    """Source sentences, and the distinct references of each, all as tokens separated by spaces."""

    sources: list[str]
    references: list[list[str]]

    def reference_columns(self) -> list[list[str]]:
        """Return the first references of all sentences, the second, and so on; "" if a reference is missing."""
        return list(map(list, zip_longest(*self.references, fillvalue="")))


@dataclass(frozen=True, slots=True)
class Split:
    """Training files (source, target, optionally alignment), number of pairs, and held-out sentences."""

    files: list[str]
    tuning: HeldOutPairs
    test: HeldOutPairs
    pairs: int

    def __str__(self) -> str:
        return (
            f"{plural(self.pairs, 'training pair')}, {plural(len(self.tuning.sources), 'tuning sentence')}, "
            f"{plural(len(self.test.sources), 'test sentence')}"
        )


def split_bitext(files: Sequence[str], folder: Path, *, tuning: int, test: int, references: int = 1) -> Split:
    """Split a bitext by its source sentences, and write training files to the folder.

    Holds out evenly spaced `tuning` and `test` sentences of up to 29 words on each side. Test sentences have at least
    `references` references. Raises `InputError` if the files differ in length or have too few suitable sentences.
    """
    columns = [read_sentences(file) for file in files]
    if len({len(lines) for lines in columns}) != 1:
        raise InputError(f"{' and '.join(files)} have different numbers of lines")
    pairs: dict[str, list[int]] = {}
    for number, line in enumerate(columns[0]):
        pairs.setdefault(line, []).append(number)

    def list_references(source: str) -> list[str]:
        held_out_lines = dict.fromkeys(columns[1][number] for number in pairs[source])
        return [line for line in held_out_lines if line.strip()]

    def is_short(line: str) -> bool:
        return 0 < len(line.split()) <= _MAX_WORDS

    suited = [source for source in pairs if is_short(source) and all(map(is_short, list_references(source)))]
    with_references = [source for source in suited if len(list_references(source)) >= references]
    tested = select_spaced(with_references, test)
    chosen = set(tested)
    tuned = select_spaced([source for source in suited if source not in chosen], tuning)
    if len(tested) < test or len(tuned) < tuning:
        raise InputError(
            f"{files[0]}: only {len(suited):,} sentences can be held out, "
            f"{len(with_references):,} of them as test sentences: hold out fewer (--tuning, --test)"
        )
    chosen.update(tuned)
    remaining = [number for number, line in enumerate(columns[0]) if line not in chosen]
    names = []
    for side, lines in zip(("source", "target", "align"), columns, strict=False):
        path = folder / f"train.{side}"
        write_lines(path, (lines[number] for number in remaining))
        names.append(str(path))
    for_tuning, for_test = (HeldOutPairs(list(part), list(map(list_references, part))) for part in (tuned, tested))
    return Split(names, for_tuning, for_test, len(remaining))


def ensure_store(folder: Path, name: str, files: Sequence[str], threads: int, seed: int = 1) -> str:
    """Return the URL of a store. If it does not exist, make it with the settings of its name, and learn."""
    path = folder / (f"{name}.db" if seed == 1 else f"{name}-{seed}.db")
    url = f"sqlite:///{path.absolute()}"
    if path.exists():
        return url
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    settings = Settings(seed=seed, **_STORE_SETTINGS.get(name, {}))
    with open_store(f"sqlite:///{new.absolute()}", create=True, settings=settings) as store:
        with PairFiles(list(files)) as source:
            ingest(store, source)
        with progress(f"learn, {name}", "pairs") as bar:
            options = LearnOptions(threads, lambda now: bar.update(now.done, now.total, now.done))
            if name in (START_STORE, SAMPLES_STORE):
                _commit_samples(store, options, settings.levels if name == SAMPLES_STORE else 0)
            else:
                learn(store, options=options)
    new.rename(path)
    return url


def _commit_samples(store: Store, options: LearnOptions, levels: int) -> None:
    """Sample a store's pairs through the first levels of schedule `paper`, and commit means of samples.

    Samples are the initial state and the state after each level: after 0, 10, …, 70 sweeps with default settings.
    If `levels` is 0, commit the initial state without averages.
    """
    sweeps = store.settings().sweeps_per_level
    with holding_lease(store, "table 2"), Learner(store, options) as learner:
        learner.total_pair_sweeps = store.count_pairs(ALIGNED_STATES) * levels * sweeps
        for rows in read_batches(store, ALIGNED_STATES):
            batch = learner.open(rows)
            if levels:
                _add_sample(batch)
            for level in range(1, levels + 1):
                learner.sweep(batch, np.full(len(rows), level * sweeps), leave_open=True)
                _add_sample(batch)
            batch.commit(store, [], learner.chain.labels(), None)


def _add_sample(batch: ResidentBatch) -> None:
    assert isinstance(batch.loaded, LoadedPairs)
    add_trees(batch.averages, batch.loaded.batch, batch.state, np.ones(batch.loaded.batch.size, np.bool_))


def _count_by_scope(snapshot: Snapshot, system: TranslationSystem) -> list[int]:
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder, open_scratch(Path(folder)) as database:
        load_rules(database, snapshot, system.count_kind)
        if system.count_kind is CountKind.TRANSLATION:
            load_pair_uses(database, snapshot, None, system.count_kind, MIN_EXPECTED, linked=False)
        only = f"WHERE {ADMITTED}" if system.hiero else ""
        numbers = database.numeric_columns(f"(SELECT scope FROM rules {only})", ["scope"])
    return [int(number) for number in np.bincount(numbers[:, 0].astype(np.int64), minlength=1)]


def time_translations(translator: Translator, sources: list[str], threads: int) -> tuple[list[str], float]:
    """Translate sentences. Returns the translations, and processor seconds per sentence, over all threads."""
    # Translate a sentence first, so that the measured time does not include loading kernels.
    translator.translate(sources[0])
    seconds, lines = time_call(
        lambda: [translation.text for translation in in_threads(translator.translate, sources, threads)],
        time.process_time,
    )
    return lines, seconds / len(sources)


def format_bleu(score: SystemScore) -> str:
    """Format BLEU with half its 95 % interval."""
    return f"{score.score:.2f} ± {(score.high - score.low) / 2:.2f}"


def format_p(p: float | None) -> str:
    """Format a p-value, or return "" for None."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


class Experiment:
    """Grammars of one bitext that are compared by their translations, in a folder with cached results."""

    def __init__(self, parts: Split, folder: Path, threads: int, cache_name: str = "results.json") -> None:
        self.parts, self.folder, self.threads = parts, folder, threads
        self.cache = ResultCache(folder / cache_name)
        self._held_out = folder / "held-out.source"
        write_lines(self._held_out, [*parts.tuning.sources, *parts.test.sources])

    def aligned_files(self) -> list[str]:
        """Return the training files and an alignment file. Aligns the pairs if the input has no alignment."""
        files = self.parts.files
        if len(files) == 3:
            return files
        path = self.folder / "train.align"
        if not path.exists():
            with progress("align", "sweeps") as bar:
                source, target = map(read_sentences, files)
                request = AlignOptions(threads=self.threads, symmetrization=GDFA)
                links = align(source, target, request, lambda done, total: bar.update(done, total, done))
            write_lines(path, links.lines())
        return [*files, str(path)]

    def make_grammar(self, system: TranslationSystem, bitext: Sequence[str]) -> GrammarFile:
        """Learn a system's grammar from a bitext with links, and filter it for held-out sentences. Cached."""
        name = system.full_name.replace(",", "").replace("'", "").replace(" ", "-").replace("=", "-")
        path = self.folder / f"{name}.cdec"

        def make() -> list[int]:
            url = ensure_store(self.folder, system.store, bitext, self.threads, system.seed)
            by_scope = self.export_grammar(system, url, path)
            print_note(f"{system.full_name}: {plural(sum(by_scope), 'rule')}")
            return by_scope

        return GrammarFile(system, path, self.cache.get_or_make(f"{system.full_name}: rules by scope", make, path))

    def export_grammar(self, system: TranslationSystem, url: str, path: Path) -> list[int]:
        """Write a grammar for the held-out sentences. Returns the numbers of all rules of scope 0, 1, …."""
        options = ExportOptions(
            format="cdec",
            features=system.features,
            posterior_mean=system.count_kind is CountKind.POSTERIOR_MEAN,
            current_sample=system.count_kind is CountKind.CURRENT_SAMPLE,
            smoothing=system.smoothing,
            hiero=system.hiero,
            max_scope=MAX_SCOPE,
            filter_for=self._held_out,
        )
        path.unlink(missing_ok=True)
        with open_store(url) as store:
            if system.heuristic:
                return export_heuristic(store, path, options, singletons=system.singletons, pruning=system.pruning)[1]
            export(store, path, options)
            with store.snapshot() as snapshot:
                return _count_by_scope(snapshot, system)

    def load_resources(self, options: TranslateOptions) -> TranslationResources:
        """Return resources of translation, with a language model of the training pairs' target side."""
        model = self.folder / "target.lm"
        if not model.exists():
            with progress("lm", "n-grams") as bar:
                build_model([self.parts.files[1]], [model], EstimationOptions(order=_LM_ORDER), bar)
        return load_resources(replace(options, lm=str(model)))

    def _tune_weights(
        self, resources: TranslationResources, grammar_file: GrammarFile, iterations: int
    ) -> dict[str, float]:
        held = self.parts.tuning
        options = TuningOptions(iterations=iterations)
        references = [[tuple(line.split()) for line in reference] for reference in held.references]
        with progress("tune", "sentences") as bar:
            decode = GrammarDecoder(
                resources,
                resources.grammar(str(grammar_file.file)),
                held.sources,
                bar,
                best=options.best,
                rounds=options.iterations + 1,
                threads=self.threads,
            )
            tuned = tune(decode, references, decode.start(), options, decode.words_index)
        return decode.by_name(tuned.weights)

    def translate_tuned(
        self, resources: TranslationResources, grammar_file: GrammarFile, iterations: int, threads: int = 1
    ) -> float:
        """Tune weights, and translate the test sentences. Returns processor seconds per sentence."""
        weights = self._tune_weights(resources, grammar_file, iterations)
        translator = resources.translator(resources.grammar(str(grammar_file.file)), weights)
        lines, seconds = time_translations(translator, self.parts.test.sources, threads)
        write_lines(grammar_file.output, lines)
        return seconds

    def tune_and_score(self, resources: TranslationResources, grammar_file: GrammarFile, iterations: int) -> float:
        """Tune weights for a grammar, translate the test sentences, and return BLEU."""
        self.translate_tuned(resources, grammar_file, iterations, self.threads)
        return self.score_bleu([grammar_file])[0].score

    def translate_with_shared_weights(
        self, grammars: Sequence[GrammarFile], iterations: int
    ) -> dict[str, tuple[float, float]]:
        """Translate the test sentences with each grammar, by weights tuned with the first. Cached.

        The weight of target words is fitted for each grammar, because the lengths of translations differ. Returns
        (processor seconds per sentence, weight of target words) by name.
        """
        resources = self.load_resources(TranslateOptions())
        tuned = self.folder / "weights.toml"
        if not tuned.exists():
            for grammar in grammars:
                grammar.output.unlink(missing_ok=True)
            weights = self._tune_weights(resources, grammars[0], iterations)
            with open_output(tuned) as file:
                file.write("\n".join(toml_table("[weights]", weights)).encode())
        resources = replace(resources, weights=read_weights(str(tuned)))
        results_by_name = {}
        for grammar in grammars:
            name = f"{grammar.system.name}: seconds a sentence, weight of words"
            translate = partial(self._fit_and_translate, resources, grammar)
            seconds, words = self.cache.get_or_make(name, translate, grammar.output)
            results_by_name[grammar.system.name] = seconds, words
        return results_by_name

    def _fit_and_translate(self, resources: TranslationResources, grammar_file: GrammarFile) -> list[float]:
        grammar = resources.grammar(str(grammar_file.file))
        words = self._fit_word_weight(resources, grammar)
        translator = resources.translator(grammar, {**resources.weights, _WORD_FEATURE: words})
        lines, seconds = time_translations(translator, self.parts.test.sources, 1)
        write_lines(grammar_file.output, lines)
        return [seconds, words]

    def _fit_word_weight(self, resources: TranslationResources, grammar: TranslationGrammar) -> float:
        """Fit the weight of target words so that translations are as long as the closest references."""
        held = self.parts.tuning
        sizes = [[len(line.split()) for line in references] for references in held.references]
        start = middle = resources.weights[_WORD_FEATURE]
        low, high = min(0.0, 2 * start), max(0.0, 2 * start)
        for _ in range(_MAX_BISECTIONS):
            translator = resources.translator(grammar, {**resources.weights, _WORD_FEATURE: middle})
            lengths = [
                len(translation.text.split())
                for translation in in_threads(translator.translate, held.sources, self.threads)
            ]
            closest = [
                min(reference_sizes, key=lambda size: abs(size - n))
                for n, reference_sizes in zip(lengths, sizes, strict=True)
            ]
            short = sum(closest) - sum(lengths)
            if not short:
                break
            low, high = (middle, high) if short > 0 else (low, middle)
            middle = (low + high) / 2
        return middle

    def evaluate(
        self, outputs: Sequence[tuple[str, list[str]]], options: EvaluationOptions, resamples: int = 1000
    ) -> list[MetricScores]:
        """Score translations of the test sentences by each metric. `outputs` are (name, lines) of each system."""
        references = [(f"reference {k + 1}", lines) for k, lines in enumerate(self.parts.test.reference_columns())]
        with progress("evaluate", "metrics") as bar:
            return evaluate(outputs, references, options, bar, resamples)

    def score_bleu(self, grammars: Sequence[GrammarFile]) -> list[SystemScore]:
        """Return BLEU of each grammar's written translations, with a p-value against the first grammar."""
        outputs = [(grammar.system.name, read_sentences(str(grammar.output))) for grammar in grammars]
        options = EvaluationOptions(metrics=("bleu",), tokenizer="none")
        [evaluated] = self.evaluate(outputs, options)
        return list(evaluated.scores)


def begin_experiment(files: Sequence[str], options: ExperimentOptions) -> Experiment:
    """Start or continue an experiment with a bitext, or with `options.pairs` evenly spaced pairs of it."""
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    check_settings(work / "settings.json", {"files": files, **options.result_settings()})
    if options.pairs is not None:
        cut = []
        for side, path in zip(("source", "target", "align"), files, strict=False):
            cut.append(str(work / f"pairs.{side}"))
            write_lines(Path(cut[-1]), select_spaced(read_sentences(path), options.pairs))
        files = cut
    parts = split_bitext(files, work, tuning=options.tuning, test=options.test, references=options.references)
    return Experiment(parts, work, options.threads)
