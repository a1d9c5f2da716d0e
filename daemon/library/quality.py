"""Measure how good translations, links and trees are; language models, and weights that are tuned."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierogram.daemon.corpora.lines import read_sentences
from hierogram.daemon.corpora.texts import TOKENS, side_of
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.library.options import PathLike, options_of
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import progress, silence
from hierogram.daemon.tuning.options import EvaluationOptions, TuningOptions

if TYPE_CHECKING:
    from hierogram.daemon.alignment.evaluation import AlignmentScore
    from hierogram.daemon.exports.difference import Difference
    from hierogram.daemon.language_models.estimation import Report as LanguageModelReport
    from hierogram.daemon.treebanks.evaluation import Score
    from hierogram.daemon.tuning.evaluation import MetricScores
    from hierogram.daemon.tuning.tuning import Tuned

Files = PathLike | Sequence[PathLike]


def _paths(files: Files) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else [str(path) for path in files]


def lm(
    texts: Files,
    outputs: Files,
    *,
    tokenize: str | None = None,
    options: EstimationOptions | None = None,
    **chosen: Any,
) -> LanguageModelReport:
    """Estimate a language model of files of sentences, one a line, and write it in the form that each name says.

    `tokenize` divides text by the rules of a language. Options are those of `EstimationOptions`: `order=5`. Memory is
    bounded, whatever the size of the text. Raises `InputError`, `ExportError`, `UsageError`.
    """
    from hierogram.daemon.language_models.files import make

    side = TOKENS if tokenize is None else side_of(tokenize)
    wanted = options_of(EstimationOptions, options, chosen)
    with silence(), progress("lm", "n-grams") as shown:
        return make(_paths(texts), list(map(Path, _paths(outputs))), wanted, shown, side)


def evaluate(
    translations: Files, references: Files, *, options: EvaluationOptions | None = None, **chosen: Any
) -> list[MetricScores]:
    """Compare files of translations with references by BLEU, chrF and TER; all after the first with the first.

    Options are those of `EvaluationOptions`: `metrics=("bleu",)`. Needs the extra `evaluate`. Raises `InputError`,
    `UsageError`.
    """
    from hierogram.daemon.tuning.evaluation import evaluate

    files, against = ([(path, read_sentences(path)) for path in _paths(given)] for given in (translations, references))
    wanted = options_of(EvaluationOptions, options, chosen)
    with silence(), progress("evaluate", "metrics") as shown:
        return evaluate(files, against, wanted, shown)


def evaluate_links(links: PathLike, reference: PathLike) -> AlignmentScore:
    """Compare a file of links with those made by hand, sure `i-j` or possible `ipj`; raises `InputError`."""
    from hierogram.daemon.alignment.evaluation import evaluate, read_gold, read_links

    right, found = read_gold(str(reference)), read_links(str(links))
    if len(found) < len(right):
        raise InputError(
            f"{links} has {len(found):,} lines, {reference} {len(right):,}: each pair with manual links must be aligned"
        )
    return evaluate(right, found[: len(right)])


def evaluate_trees(trees: PathLike, reference: PathLike) -> dict[str, Score]:
    """Compare a file of trees with those made by hand, as EVALB does: `all`, and those `up_to_cutoff` words.

    Raises `InputError`.
    """
    from hierogram.daemon.treebanks.evaluation import evaluate
    from hierogram.daemon.treebanks.reading import read_trees

    right, found = read_trees(str(reference)), read_trees(str(trees))
    if len(found) != len(right):
        raise InputError(f"{trees} has {len(found):,} trees, {reference} {len(right):,}: their numbers differ")
    return evaluate(right, found)


def diff(before: PathLike, after: PathLike, limit: int = 10) -> Difference:
    """Compare two exports, or folders of versions: rules added, removed and changed, `limit` of each kind in full."""
    from hierogram.daemon.exports.difference import compare

    return compare(Path(before), Path(after), limit)


def tune(
    grammar: PathLike | GrammarStore,
    sentences: PathLike,
    references: Files,
    output: PathLike,
    *,
    options: TuningOptions | None = None,
    translate: TranslateOptions | None = None,
    threads: int = 0,
    **chosen: Any,
) -> Tuned:
    """Tune the weights of features to BLEU, and write those of the best round to a TOML file for `Decoder`.

    `sentences` and their references are files that the grammar has not learned from. Options are those of
    `TuningOptions`; `translate` says how sentences are translated, and where weights begin. Needs the extra `tune`.
    Raises `InputError`, `ExportError`, `UsageError`.
    """
    from hierogram.daemon.decoding.opening import equip
    from hierogram.daemon.tuning.evaluation import check_lines
    from hierogram.daemon.tuning.runs import GrammarDecoder, split_references, write_tuned
    from hierogram.daemon.tuning.tuning import need_scipy, tune

    need_scipy()
    wanted = options_of(TuningOptions, options, chosen)
    translate = translate or TranslateOptions()
    lines = read_sentences(str(sentences))
    against = [(path, read_sentences(path)) for path in _paths(references)]
    check_lines([(str(sentences), lines)], against)
    with ExitStack() as stack:
        stack.enter_context(silence())
        equipment = equip(translate)
        if isinstance(grammar, GrammarStore):
            rules = equipment.of_store(grammar.store)[0]
        else:
            rules = equipment.grammar(str(grammar))
        shown = stack.enter_context(progress("tune", "sentences"))
        rounds = wanted.iterations + 1
        decode = GrammarDecoder(equipment, rules, lines, shown, best=wanted.best, rounds=rounds, threads=threads)
        side = equipment.texts(rules).target
        texts = split_references(([side.tokens(line) for line in own] for _, own in against), len(lines))
        tuned = tune(decode, texts, decode.start(), wanted, decode.words)
    named = grammar.url if isinstance(grammar, GrammarStore) else str(grammar)
    inputs = {"grammar": named, "lm": translate.lm, "sentences": str(sentences), "references": _paths(references)}
    write_tuned(Path(output), tuned, decode.by_name, wanted, inputs)
    return tuned
