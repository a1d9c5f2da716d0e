"""The command that compares translations with references: evaluate."""

from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, interruptible, say, say_json, say_table
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.options import EvaluationOptions

if TYPE_CHECKING:
    from hierogram.daemon.tuning.evaluation import SystemScore


@with_options
def evaluate(
    translations: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Translations, a sentence a line; the others are tested against the first.",
        ),
    ],
    reference: Annotated[
        list[str],
        typer.Option(
            "--reference",
            "-r",
            metavar="FILE",
            help="References, line for line; may be given again. A line that is empty in one has a reference less.",
        ),
    ],
    options: EvaluationOptions,
    as_json: AsJson = False,
) -> None:
    """Compare translations with references by BLEU, chrF and TER, with paired bootstrap tests.

    p is how probable a difference as large as that from the first translation would be by chance; ± is half of the 95 %
    interval. sacrebleu makes the scores (extra `evaluate`), and its signatures say how.
    """
    from hierogram.daemon.alignment.files import read_sentences
    from hierogram.daemon.tuning.evaluation import evaluate as compare

    files = [(name, read_sentences(name)) for name in translations]
    against = [(name, read_sentences(name)) for name in reference]
    with interruptible("nothing was compared"), progress("evaluate", "metrics") as shown:
        found = compare(files, against, options, shown)
    if as_json:
        say_json([{**metric._asdict(), "scores": [score._asdict() for score in metric.scores]} for metric in found])
        return
    rows = [
        [name, *(cell for metric in found for cell in _cells(metric.scores[number]))]
        for number, name in enumerate(translations)
    ]
    columns = ["translation", *(title for metric in found for title in (metric.metric, "±", "p"))]
    say_table(columns, rows, numeric=range(1, len(columns)))
    for metric in found:
        say(f"{metric.metric}: {metric.signature}")


def _cells(score: "SystemScore") -> list[str]:
    p = "" if score.p is None else f"{score.p:.3f}"
    return [f"{score.score:.2f}", f"{(score.high - score.low) / 2:.2f}", p]
