"""BLEU, chrF, TER and paired bootstrap tests of translations, computed by sacrebleu."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from unicodedata import normalize

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import Progress
from hierogram.storage.exceptions import install_extra
from hierogram.tools.translation.options import EvaluationOptions

NamedTexts = Sequence[tuple[str, list[str]]]
"""Name and lines of each text."""


class SystemScore(NamedTuple):
    """Score of a translation, with its 95 % interval from `low` to `high`.

    `p` is the probability of at least this difference from the first translation by chance (None for the first).
    """

    name: str
    score: float
    low: float
    high: float
    p: float | None


class MetricScores(NamedTuple):
    """Scores of all translations under one metric, and sacrebleu's signature of the metric."""

    metric: str
    signature: str
    scores: list[SystemScore]


def evaluate(
    translations: NamedTexts, references: NamedTexts, options: EvaluationOptions, bar: Progress, resamples: int = 1_000
) -> list[MetricScores]:
    """Score translations, and test all others against the first. Raises `InputError`, `UsageError`."""
    check_lines(translations, references)
    rows = zip(*(texts for _, texts in references), strict=True)
    # Use `Any`, because the types of sacrebleu do not allow missing references.
    streams: Any = [[*column] for column in zip(*map(_mask_missing, rows), strict=True)]
    try:
        from sacrebleu import BLEU, CHRF, TER
        from sacrebleu.significance import PairedTest
    except ImportError as error:
        raise UsageError(f"hierogram evaluate requires sacrebleu: {install_extra('evaluate')}") from error
    metrics: dict[str, Any] = {"bleu": partial(BLEU, tokenize=options.tokenizer, force=True), "chrf": CHRF, "ter": TER}
    systems: list[tuple[str, Sequence[str]]] = [
        (str(number), [normalize("NFC", line) for line in lines]) for number, (_, lines) in enumerate(translations)
    ]
    results = []
    for number, name in enumerate(options.metrics):
        bar.update(number, len(options.metrics), number, name)
        test = PairedTest(systems, {name: metrics[name]()}, streams, test_type="bs", n_samples=resamples)
        signatures, columns = test()
        [(label, signature)] = signatures.items()
        metric_scores: list[Any] = columns[label]
        scores = []
        for (named, _), score in zip(translations, metric_scores, strict=True):
            low, high = float(score.mean - score.ci), float(score.mean + score.ci)
            scores.append(SystemScore(named, float(score.score), low, high, score.p_value))
        results.append(MetricScores(label, signature.format(), scores))
    return results


def _mask_missing(row: Sequence[str]) -> list[str | None]:
    """Return the references of a line in NFC, with None for empty references that sacrebleu must ignore."""
    if not any(map(str.strip, row)):
        return [""] * len(row)
    return [normalize("NFC", line) if line.strip() else None for line in row]


def check_lines(texts: NamedTexts, references: NamedTexts) -> None:
    """Raise `InputError` if line counts differ, texts have no lines, or all references are empty."""
    first, lines = texts[0]
    for name, lines_of_reference in (*texts[1:], *references):
        if len(lines_of_reference) != len(lines):
            raise InputError(f"{name} has {len(lines_of_reference):,} lines, but {first} has {len(lines):,}")
    if not lines:
        raise InputError(f"{first} has no lines")
    if not any(line.strip() for _, lines_of_reference in references for line in lines_of_reference):
        raise InputError(f"{', '.join(name for name, _ in references)}: no references, because all lines are empty")
