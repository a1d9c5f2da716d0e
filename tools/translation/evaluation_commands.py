"""Command that compares translations, links or trees with references: evaluate."""

from dataclasses import asdict
from typing import Annotated

from hierogram.daemon.cli.common import files_or_input, interruptible, plural, print_json, print_note, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.shared_options import REFERENCE, AsJson
from hierogram.storage.options import Option
from hierogram.tools.translation.tuning.options import EvaluationOptions

TRANSLATIONS, LINKS, LINKS_FROM_1, TREES = "translations", "links", "links-from-1", "trees"
_KINDS = {
    TRANSLATIONS: "BLEU, chrF, TER",
    LINKS: "Pharaoh lines; links of the reference are sure, `i-j`, or possible, `ipj`",
    LINKS_FROM_1: "like links, with a reference that counts words from 1",
    TREES: "bracketing scores of EVALB with COLLINS.prm",
}


@with_options
def evaluate(
    reference: Annotated[list[str], REFERENCE],
    files: Annotated[
        list[str] | None,
        Option(
            "Translations, links or trees, line by line. Further translations are compared with the first. Default, "
            "or -: standard input.",
            metavar="[FILE]...",
            positional=True,
        ),
    ] = None,
    *,
    of: Annotated[str, Option("Content of the files", values=_KINDS)] = TRANSLATIONS,
    options: EvaluationOptions,
    as_json: AsJson = False,
) -> None:
    """Evaluate translations, links or trees. Compares them with references, or with manual links or trees.

    Translations: BLEU, chrF and TER of sacrebleu (extra `evaluate`), with their signatures. p is the p-value of the
    difference from the first translation, ± half of the 95 % confidence interval. Links: alignment error rate,
    precision and recall on the pairs with manual links. Trees: labeled precision, recall, F1 and exact matches, without
    functional tags and traces.
    """
    files = files_or_input(files, of)
    if of == TRANSLATIONS:
        _evaluate_translations(files, reference, options, as_json)
        return
    if len(files) != 1 or len(reference) != 1 or options != EvaluationOptions():
        raise UsageError(f"--of {of} requires exactly one FILE and one --reference, and no options of translations")
    if of in (LINKS, LINKS_FROM_1):
        _evaluate_links(reference[0], files[0], of == LINKS_FROM_1, as_json)
    else:
        _evaluate_trees(reference[0], files[0], as_json)


def _evaluate_translations(
    translations: list[str], reference: list[str], options: EvaluationOptions, as_json: bool
) -> None:
    from hierogram.tools.translation.library import evaluate as compare

    with interruptible("nothing was compared"):
        scores = compare(translations, reference, options=options)
    if as_json:
        print_json([{**metric._asdict(), "scores": [score._asdict() for score in metric.scores]} for metric in scores])
        return
    rows = []
    for number, name in enumerate(translations):
        row = [name]
        for score in (metric.scores[number] for metric in scores):
            row += [f"{score.score:.2f}", f"{(score.high - score.low) / 2:.2f}"]
            row.append("" if score.p is None else f"{score.p:.3f}")
        rows.append(row)
    columns = ["translation", *(title for metric in scores for title in (metric.metric, "±", "p"))]
    print_table(columns, rows, numeric=range(1, len(columns)))
    for metric in scores:
        print(f"{metric.metric}: {metric.signature}")


def _evaluate_links(gold: str, hypothesis: str, one_based: bool, as_json: bool) -> None:
    from hierogram.tools.alignment_scores import evaluate_links

    result = evaluate_links(hypothesis, gold, one_based=one_based)
    for note in result.notes:
        print_note(f"{note.code}: {note.text}")
    if as_json:
        print_json(asdict(result))
        return
    print(f"AER {result.aer:.4f}  precision {result.precision:.4f}  recall {result.recall:.4f}")
    manual = f"{result.sure:,} sure, {result.possible:,} possible"
    print(f"{plural(result.pairs, 'pair')}, {plural(result.links, 'link')}; manual: {manual}")


def _evaluate_trees(gold: str, hypothesis: str, as_json: bool) -> None:
    from hierogram.tools.treebanks.evaluation import CUTOFF_WORDS
    from hierogram.tools.treebanks.library import evaluate_trees

    result = evaluate_trees(hypothesis, gold)
    if as_json:
        print_json({which: asdict(score) for which, score in result.items()})
        return
    for which, score in (("all sentences", result["all"]), (f"at most {CUTOFF_WORDS} words", result["up_to_cutoff"])):
        print(
            f"{which}: {score.sentences:,}  precision {score.precision:.4f}  recall {score.recall:.4f}  "
            f"F1 {score.f1:.4f}  exact {score.exact:.4f}  tags {score.tagging:.4f}"
        )
