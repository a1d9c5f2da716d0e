"""Draw Figure 1 and fill Table 1 of [BC10]: mixing of the ITG samplers from each start.

    python -m hierogram.tools.lab.papers.slice_sampling corpus.zh corpus.en --work slices --pairs 200 --seeds 5

Each row is a sampler and a start, with mean and range over the seeds. P_f and P_e are the relative frequencies of
words, and strengths are fixed, so that ln P of all runs is comparable. The same command continues an interrupted run.

With --phrases, all samplers may emit phrases, like the paper's local sampler. Rows *words only* emit only words under
the same model, like the paper's slices.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.learning.alignment.aligning import AlignedCorpus, align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.text.lines import write_lines
from hierogram.samplers.alignment.bitext import Side, read_side
from hierogram.samplers.alignment.marginals import LinkSamples, decode_links
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL
from hierogram.samplers.alignment.options import GDFA
from hierogram.samplers.alignment.symmetrization import one_to_one
from hierogram.samplers.grammar.numbers import MAX_ITG_PHRASE_LENGTH
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings, Model1, make_base, train_model1
from hierogram.samplers.itg.sampler import ItgKernel, ItgState
from hierogram.samplers.itg.starts import LEFT_BRANCHING, MODEL1
from hierogram.samplers.itg.summaries import add_links
from hierogram.storage.options import Option
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, FLAT, GIBBS, SLICE, build, make_plan
from hierogram.tools.lab.measures.itg import read_short_pairs
from hierogram.tools.lab.measures.results import (
    BitextFile,
    ResultCache,
    check_settings,
    markdown_table,
    save_figure,
    write_table,
)
from hierogram.tools.lab.papers.translations import Experiment, Split, TranslationSystem, format_bleu, split_bitext

_ITERATIONS = 5
"""Rounds of tuning."""
STRENGTHS = (1000.0, 100.0, 100.0, 1000.0, 1000.0)
"""Fixed strengths of the ITG's processes (`ItgSettings.strengths`), as in the paper."""


@dataclass(frozen=True, slots=True)
class ItgVariant:
    """Row of Table 1: a sampler, the parameter a of its slices (1 without slices), and a start.

    The sampler `START` makes no sweeps. If `words_only` is True, the sampler emits only words in a model with phrases.
    """

    sampler: str
    shape: float
    start: str
    words_only: bool = False

    @property
    def name(self) -> str:
        """Row name: sampler, slice shape and start, such as `slice a=0.15 M1`."""
        slices = f" a={self.shape:.2f}" if self.sampler in (SLICE, FLAT) else ""
        return f"{self.sampler}{slices} {self.start.upper()}{' words only' if self.words_only else ''}"


START, LINKS = "start", "m4"
"""Sampler without sweeps, and start from the default aligner's links instead of Model 4's."""
_STARTS = LEFT_BRANCHING, MODEL1, LINKS
_SLICES = (0.25, MODEL1), *((0.15, start) for start in _STARTS), (0.10, MODEL1)
VARIANTS = (
    *(ItgVariant(sampler, 1.0, start) for sampler in (START, GIBBS) for start in _STARTS),
    *(ItgVariant(sampler, shape, start) for sampler in (SLICE, FLAT) for shape, start in _SLICES),
    *(ItgVariant(EXHAUSTIVE, 1.0, start) for start in (LEFT_BRANCHING, MODEL1)),
)
"""Rows of Table 1, plus slices started from the links, flat slices, and the exhaustive sampler."""
_PHRASE_VARIANTS = [variant for variant in VARIANTS if variant.shape in (0.15, 1.0)]
WITH_PHRASES = (
    *_PHRASE_VARIANTS,
    *(replace(variant, words_only=True) for variant in _PHRASE_VARIANTS if variant.sampler in (GIBBS, SLICE, FLAT)),
)
"""Rows of the table with phrases: variants without slices or with a = 0.15, some also with words only."""


@dataclass(frozen=True, kw_only=True)
class SliceOptions:
    """Options of the table."""

    work: Annotated[Path, Option("Folder of all results; existing ones are reused.", metavar="FOLDER")]
    pairs: Annotated[int | None, Option("Use only the first N pairs.", min=1)] = None
    sweeps: Annotated[int, Option("Sweeps of the slice and local samplers.", min=1)] = 100
    exhaustive: Annotated[int, Option("Sweeps of the exhaustive sampler; 0 to omit it.", min=0)] = 20
    min_shape: Annotated[
        float, Option("Omit slice samplers with a smaller a, which take longest.", min=0, flags=("--min-a",))
    ] = 0.0
    seeds: Annotated[int, Option("Number of seeds, starting at 1.", min=1)] = 1
    phrases: Annotated[
        int, Option("Maximum number of words on each side of a phrase.", min=1, max=MAX_ITG_PHRASE_LENGTH)
    ] = 1
    test: Annotated[int, Option("Number of test sentences; 0 to omit BLEU.", min=0)] = 0
    tuning: Annotated[int, Option("Number of tuning sentences.", min=1)] = 200
    threads: Annotated[int, Option("Threads of learning and tuning.", min=1)] = 2
    figure: Annotated[Path | None, Option("PNG file; the curves are written next to it as .csv.", metavar="FILE")] = (
        None
    )

    def result_settings(self) -> dict[str, Any]:
        """Return the options that affect cached results, as text."""
        not_in_results = ("work", "min_shape", "seeds", "threads", "figure")
        return {name: str(value) for name, value in asdict(self).items() if name not in not_in_results}


@dataclass(frozen=True, slots=True)
class SampledBitext:
    """Pairs to sample, and inputs of their chains."""

    # Source sentences and target sentences, as text and as word numbers.
    sentences: tuple[list[str], list[str]]
    source: Side
    target: Side
    # Batches with phrases, and with only words.
    batch: ItgBatch
    words_only_batch: ItgBatch
    model1: Model1
    # Links of the default aligner, and one-to-one links for the start `LINKS`.
    aligned: AlignedCorpus
    links: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a chain with one seed."""

    variant: ItgVariant
    seed: int
    # Processor seconds of sampling so far, and ln P of all derivations, at the start and after each sweep.
    seconds: list[float]
    log_likelihood: list[float]
    # Share of accepted proposals.
    acceptance: float


def read_bitext(source: str, target: str, pairs: int | None, phrases: int) -> SampledBitext:
    """Read and align the first `pairs` pairs of up to 40 words per side, or all such pairs."""
    sentences = read_short_pairs(source, target, pairs)
    source_side, target_side = map(read_side, sentences)
    columns = source_side.words, source_side.offset, target_side.words, target_side.offset
    batch, words_only_batch = make_batch(*columns, longest_phrase=phrases), make_batch(*columns)
    aligned = align(*sentences, AlignOptions(symmetrization=GDFA))
    links = one_to_one(aligned.links, aligned.posterior, batch.source_offset)
    return SampledBitext(
        sentences, source_side, target_side, batch, words_only_batch, train_model1(batch), aligned, links
    )


def start_chain(bitext: SampledBitext, variant: ItgVariant, seed: int) -> tuple[ItgKernel, ItgState]:
    """Return kernel and initial state of a variant."""
    settings = ItgSettings(variant.shape, STRENGTHS, sampled_strengths=False, sampled_words=False)
    method = SLICE if variant.sampler == START else variant.sampler
    kernel = build(bitext.words_only_batch if variant.words_only else bitext.batch, settings, method, bitext.model1)
    state = kernel.init(seed, bitext.links if variant.start == LINKS else variant.start)
    if variant.words_only:
        # Use the word probabilities of the model with phrases, so that ln P is comparable.
        base = make_base(bitext.batch, bitext.model1, settings)
        words_base = base._replace(lexical=base.lexical[: len(kernel.initial_base.lexical)].copy())
        state = kernel.resume(state.derivations, words_base)
    return kernel, state


def sample(
    bitext: SampledBitext, variant: ItgVariant, seed: int, sweeps: int, links: Path | None = None
) -> dict[str, Any]:
    """Run a chain, and write the links of its last sample to a file. Returns the results for `Run`."""
    kernel, state = start_chain(bitext, variant, seed)
    seconds, likelihood = [0.0], [kernel.log_likelihood(state)]
    proposed = accepted = 0
    for sweep in range(1, sweeps + 1):
        started = time.process_time()
        state, info = kernel.step(seed, state, make_plan(bitext.batch, sweep))
        seconds.append(seconds[-1] + time.process_time() - started)
        likelihood.append(kernel.log_likelihood(state))
        proposed, accepted = proposed + info.proposed, accepted + info.accepted
    if links is not None:
        linked, implied = np.zeros((2, len(bitext.batch.types)), np.float32)
        add_links(bitext.batch, state.derivations, linked, implied)
        samples = LinkSamples(linked, implied, 1)
        aligned = AlignedCorpus(*decode_links(samples, bitext.source, bitext.target, implied=True))
        write_lines(links, aligned.lines())
    return {
        "seconds": [round(value, 4) for value in seconds],
        "log_likelihood": [round(value, 3) for value in likelihood],
        "acceptance": accepted / max(proposed, 1),
    }


def format_table(runs: Sequence[Run], bleu: dict[str, str]) -> str:
    """Return a Markdown table with a row for each variant. `bleu` is formatted BLEU by row name."""
    columns = ["sampler", "CPU seconds per sweep", "acceptance", "ln P at the start"]
    columns += ["mean final ln P", "lowest final ln P", "highest final ln P"]
    rows = []
    if DEFAULT_MODEL in bleu:
        rows.append([DEFAULT_MODEL, *[""] * 6, bleu[DEFAULT_MODEL]])
    for variant in dict.fromkeys(run.variant for run in runs):
        variant_runs = [run for run in runs if run.variant == variant]
        ends = [run.log_likelihood[-1] for run in variant_runs]
        sweeps = len(variant_runs[0].seconds) - 1
        seconds = accepted = ""
        if sweeps:
            seconds = f"{np.mean([run.seconds[-1] / sweeps for run in variant_runs]):.3f}"
            accepted = f"{np.mean([run.acceptance for run in variant_runs]):.4f}"
        likelihoods = (np.mean([run.log_likelihood[0] for run in variant_runs]), np.mean(ends), min(ends), max(ends))
        cells = [f"{likelihood:,.0f}" for likelihood in likelihoods]
        rows.append([variant.name, seconds, accepted, *cells, bleu.get(variant.name, "")])
    return markdown_table([*columns, "BLEU"], rows)


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw ln P against sweeps and seconds, one line for the first seed of each sampler and start, as PNG."""
    from matplotlib import colormaps

    with save_figure(path, 1, 2, size=(12, 4.6), sharey=True) as panels:
        first = {run.variant.name: run for run in reversed(runs) if len(run.seconds) > 1}
        colors = {name: colormaps["tab20"](number) for number, name in enumerate(sorted(first))}
        for name, run in sorted(first.items()):
            panels[0].plot(range(len(run.log_likelihood)), run.log_likelihood, label=name, color=colors[name])
            panels[1].plot(run.seconds[1:], run.log_likelihood[1:], color=colors[name])
        for panel, label in zip(panels, ("samples", "processor time, s"), strict=True):
            panel.set_xlabel(label)
            panel.set_xscale("symlog" if panel is panels[0] else "log")
            panel.grid(alpha=0.3)
        panels[0].set_ylabel("log-likelihood")
        panels[0].legend(loc="lower right", fontsize=8)


@with_options
def main(
    source: BitextFile,
    target: BitextFile,
    options: SliceOptions,
) -> None:
    """Sample the pairs with each variant, print Table 1, and draw Figure 1."""
    files = [str(source), str(target)]
    options.work.mkdir(parents=True, exist_ok=True)
    check_settings(options.work / "settings.json", {"files": files, **options.result_settings()})
    parts = split_bitext(files, options.work, tuning=options.tuning, test=options.test) if options.test else None
    files = files if parts is None else parts.files
    bitext = read_bitext(files[0], files[1], options.pairs, options.phrases)
    runs, links = _sample_all(bitext, options)
    figure = options.figure or options.work / "figure.png"
    rows = (
        (done.variant.name, done.seed, sweep, f"{spent:.4f}", f"{value:.3f}")
        for done in runs
        for sweep, (spent, value) in enumerate(zip(done.seconds, done.log_likelihood, strict=True))
    )
    write_table(figure.with_suffix(".csv"), ("sampler", "seed", "sweep", "seconds", "log_likelihood"), rows)
    draw(runs, figure)
    bleu = {} if parts is None else _translate_all(bitext, parts, links, options)
    print(format_table(runs, bleu))


def _sample_all(bitext: SampledBitext, options: SliceOptions) -> tuple[list[Run], dict[str, Path]]:
    """Run all variants. Returns the runs, and the links files of the first seed by variant name."""
    cache = ResultCache(options.work / "results.json")
    # Sample a pair of one word first, so that times exclude compilation.
    tiny = replace(bitext, batch=make_batch(*(np.zeros(1, np.int32), np.array([0, 1])) * 2))
    tiny = replace(tiny, words_only_batch=tiny.batch, model1=train_model1(tiny.batch), links=np.zeros(1, np.int32))
    runs: list[Run] = []
    links: dict[str, Path] = {}
    for variant in VARIANTS if options.phrases == 1 else WITH_PHRASES:
        sweeps = {START: 0, EXHAUSTIVE: options.exhaustive}.get(variant.sampler, options.sweeps)
        if (variant.sampler == EXHAUSTIVE and not sweeps) or variant.shape < options.min_shape:
            continue
        sample(tiny, variant, 1, min(sweeps, 1))
        variant_runs = []
        for seed in range(1, options.seeds + 1):
            name = f"{variant.name}, seed {seed}"
            path = options.work / f"{name.replace(', ', '-').replace(' ', '-')}.align"
            run = cache.get_or_make(name, partial(sample, bitext, variant, seed, sweeps, path), path)
            variant_runs.append(Run(variant, seed, **run))
            links.setdefault(variant.name, path)
        runs += variant_runs
        print(format_table(variant_runs, {}).splitlines()[-1], flush=True)
    return runs, links


def _translate_all(
    bitext: SampledBitext, parts: Split, links: dict[str, Path], options: SliceOptions
) -> dict[str, str]:
    """Return BLEU with half its 95 % interval, as text, by variant name, with the default aligner first.

    A store learns the pairs with the links of each variant, and its posterior means translate the test sentences.
    Weights are tuned once, with the first grammar. The weight of target words is fitted for each grammar. Cached.
    """
    files = []
    for side, lines in zip(("source", "target"), bitext.sentences, strict=True):
        files.append(str(options.work / f"sampled.{side}"))
        write_lines(Path(files[-1]), lines)
    first = options.work / f"{DEFAULT_MODEL}.align"
    write_lines(first, bitext.aligned.lines())
    learned = Split(files, parts.tuning, parts.test, bitext.batch.size)
    experiment = Experiment(learned, options.work, options.threads, "translated.json")
    grammars = []
    for name, path in {DEFAULT_MODEL: first, **links}.items():
        system = TranslationSystem(name, name.replace(" ", "-").replace("=", "-"))
        grammars.append(experiment.make_grammar(system, [*files, str(path)]))
    experiment.translate_with_shared_weights(grammars, _ITERATIONS)
    return {score.name: format_bleu(score) for score in experiment.score_bleu(grammars)}


if __name__ == "__main__":
    typer.run(main)
