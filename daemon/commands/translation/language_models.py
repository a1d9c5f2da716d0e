"""The commands around language models: lm."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, interruptible, note, plural, say_json
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from hierogram.daemon.language_models.estimation import Report


@with_options
def lm(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Tokenised text, a sentence a line; gzip and zstd are unpacked, - is standard input.",
        ),
    ],
    output: Annotated[
        list[str],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Language model to write, may be given again: an ARPA file if it ends in .arpa, .gz or .zst, else "
            "the binary form that decoding maps into memory.",
        ),
    ],
    options: EstimationOptions,
    convert: Annotated[
        bool, typer.Option("--convert", help="FILE is a language model, ARPA or binary: write it in another form.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate an n-gram language model by interpolated modified Kneser-Ney smoothing.

    Tokens are separated by spaces or tabs; empty lines are passed over. <s> and </s> are added, <unk> gets its share.
    Memory is bounded, whatever the size of the text: what does not fit goes to files beside the output.
    """
    if convert and (len(files) > 1 or options != EstimationOptions()):
        raise UsageError("--convert takes one FILE, and none of the options of estimation")
    announce_compilation()
    from hierogram.daemon.language_models import making

    outputs = [Path(name) for name in output]
    with interruptible("no language model was written"), progress("lm", "n-grams") as shown:
        if convert:
            named = making.convert(files[0], outputs, shown)
            report = making.Report(0, 0, named.counts(), 0, [])
        else:
            report = making.make(files, outputs, options, shown)
    for order in report.without_discounts:
        note(f"the text is too small to estimate the discounts of {order}-grams: they are 0.5, 1 and 1.5")
    if as_json:
        say_json({"outputs": output, **report._asdict()})
        return
    ngrams = " + ".join(f"{number:,}" for number in report.ngrams)
    for name in output:
        note(f"{name}: {ngrams} n-grams" + ("" if convert else _of_text(report)))


def _of_text(report: "Report") -> str:
    unknown = f", {report.unknown:,} of them <unk>" if report.unknown else ""
    return f" of {plural(report.sentences, 'sentence')}, {plural(report.words, 'word')}{unknown}"
