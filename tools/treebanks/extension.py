"""The command `parse`, which parses sentences with tree fragments."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import grammar_and_sentences, interruptible, plural, print_note
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exports.formats import format_from_name
from hierogram.daemon.extensions import TRANSLATE, Command, Extension
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import OUTPUT, STANDARD_STREAM
from hierogram.samplers.grammar.settings import PCFG
from hierogram.storage.options import Option
from hierogram.tools.treebanks.requests import ParseRequest


@with_options
def parse(
    context: typer.Context,
    request: ParseRequest,
    files: Annotated[
        list[str] | None,
        Option(
            "GRAMMAR: a file of fragments and counts, with lines such as `(NP (DT the) (NN)) ||| 17`, or a store of "
            "trees. Default: the store. FILE: sentences, one per line. Default: standard input (-).",
            metavar="[GRAMMAR] [FILE]",
            positional=True,
        ),
    ] = None,
    output: Annotated[str, OUTPUT] = STANDARD_STREAM,
) -> None:
    """Parse sentences with tree fragments. Writes bracketed trees, one per line.

    Tokens are separated by spaces. Unknown words are replaced by a class of their spelling, such as `UNK-CAPS`. A
    sentence without a parse becomes a flat tree, and an empty line remains empty.
    """
    from hierogram.daemon.text.lines import read_sentences, write_lines
    from hierogram.tools.treebanks.library import parse as parse_sentences

    with interruptible("no trees were written"), ExitStack() as stack:
        grammar, sentences = grammar_and_sentences(
            context, files or (), stack, lambda file: format_from_name(file) is not None
        )
        lines = read_sentences(sentences)
        if request.base is None and isinstance(grammar, str):
            print_note(f"{grammar}: the file does not name its base distribution: smoothing with {PCFG}, see --base")
        bar = stack.enter_context(progress("parse", "sentences"))
        total = len(lines)
        parsed = parse_sentences(lines, grammar, options=request, progress=lambda done: bar.update(done, total, done))
        flat = [number for number, result in enumerate(parsed, 1) if not result.found]
        for number in flat:
            print_note(f"{sentences}, line {number}: no parse: the output is a flat tree")
        trees = [result.tree for result in parsed]
        if output == STANDARD_STREAM:
            sys.stdout.writelines(tree + "\n" for tree in trees)
            return
        write_lines(Path(output), trees)
    print_note(f"{output}: {plural(len(trees), 'sentence')}, {len(flat):,} without a parse")


EXTENSION = Extension(commands=[Command(TRANSLATE, parse, "hierogram parse grammar.txt news.en -o news.trees")])
