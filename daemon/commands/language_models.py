"""The commands around language models: lm."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, interruptible, named_store, note, note_text, plural, print_json
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.learning import announce_compilation
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.progress import progress
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.corpora.texts import TextSide


@with_options
def lm(
    context: typer.Context,
    files: Annotated[
        list[str],
        Option(
            "Text, a sentence a line; gzip and zstd are unpacked, - is standard input.",
            metavar="FILE...",
            positional=True,
        ),
    ],
    output: Annotated[
        list[str],
        Option(
            "Language model to write, may be given again: an ARPA file if it ends in .arpa, .gz or .zst, else "
            "the binary form that decoding maps into memory.",
            metavar="FILE",
            flags=("--output", "-o"),
        ),
    ],
    options: EstimationOptions,
    tokenize: Annotated[
        str | None, Option("Divide text into tokens, by the rules of a language: en.", metavar="LANGUAGE")
    ] = None,
    tokenized: Annotated[bool, Option("Text is tokens separated by spaces: leave it as it is.")] = False,
    convert: Annotated[bool, Option("FILE is a language model, ARPA or binary: write it in another form.")] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate an n-gram language model by interpolated modified Kneser-Ney smoothing.

    Tokens are separated by spaces or tabs, where --tokenize or --store does not say what divides text into tokens;
    empty lines are passed over. <s> and </s> are added, <unk> gets its share.
    Memory is bounded, whatever the size of the text: what does not fit goes to files beside the output.
    """
    if tokenize is not None and tokenized:
        raise UsageError("--tokenize: divides text, and --tokenized leaves it as it is: give one of them")
    if convert and (len(files) > 1 or options != EstimationOptions() or tokenize is not None or tokenized):
        raise UsageError("--convert takes one FILE, and none of the options of estimation")
    side = _side(named_store(context), tokenize, tokenized)
    announce_compilation()
    from hierogram.daemon.language_models import files as models
    from hierogram.daemon.language_models.estimation import Report

    outputs = [Path(name) for name in output]
    with interruptible("no language model was written"), progress("lm", "n-grams") as shown:
        if convert:
            named = models.convert(files[0], outputs, shown)
            report = Report(0, 0, named.counts(), 0, [])
        else:
            report = models.make(files, outputs, options, shown, side)
    note_text(side, ", ".join(files), report.beginning, tokenized, "en")
    for order in report.without_discounts:
        note(f"the text is too small to estimate the discounts of {order}-grams: they are 0.5, 1 and 1.5")
    if as_json:
        print_json({"outputs": output, **report._replace(beginning=())._asdict()})
        return
    ngrams = " + ".join(f"{number:,}" for number in report.ngrams)
    unknown = f", {report.unknown:,} of them <unk>" if report.unknown else ""
    text = f" of {plural(report.sentences, 'sentence')}, {plural(report.words, 'word')}{unknown}"
    for name in output:
        note(f"{name}: {ngrams} n-grams" + ("" if convert else text))


def _side(store: str | None, tokenize: str | None, tokenized: bool) -> "TextSide":
    """Return what divides text, by options or by what a store does with target sentences."""
    from hierogram.daemon.corpora.texts import TOKENS, pipeline_of, side_of
    from hierogram.storage.store import open_store

    if tokenize is not None:
        if store is not None:
            raise UsageError("--store says how text is divided, and so does --tokenize: give one of them")
        return side_of(tokenize)
    if tokenized or store is None:
        return TOKENS
    with open_store(store) as opened:
        return pipeline_of(opened.settings()).target
