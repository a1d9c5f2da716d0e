"""The command that parses: parse."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.commands.common import grammar_and_sentences, interruptible, note, plural
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.learning import announce_compilation
from hierogram.daemon.progress import progress
from hierogram.daemon.treebanks.requests import ParseRequest
from hierogram.samplers.grammar.settings import PCFG
from hierogram.storage.options import Option

STANDARD_OUTPUT = "-"


@with_options
def parse(
    context: typer.Context,
    files: Annotated[
        list[str],
        Option(
            "GRAMMAR: lines of `(NP (DT the) (NN)) ||| 17`, fragment and count, or a store of trees; without it, "
            "the store. FILE: sentences, one a line; - is standard input.",
            metavar="[GRAMMAR] FILE",
            positional=True,
        ),
    ],
    request: ParseRequest,
    output: Annotated[
        str,
        Option(
            "Trees to write; .gz or .zst compresses; - is standard output.", metavar="FILE", flags=("--output", "-o")
        ),
    ] = STANDARD_OUTPUT,
) -> None:
    """Parse sentences with a grammar of tree fragments; trees in brackets, line for line.

    Tokens are separated by spaces. Words that the grammar does not know are parsed as their class. A sentence without
    a parse gets a flat tree, and an empty line stays empty.
    """
    announce_compilation()
    from hierogram.daemon.corpora.lines import read_sentences, write_lines
    from hierogram.daemon.library.store import open
    from hierogram.daemon.library.texts import parse as find_trees

    grammar, is_store, sentences = grammar_and_sentences(context, files)
    with interruptible("no trees were written"), ExitStack() as stack:
        lines = read_sentences(sentences)
        if request.base is None and not is_store:
            note(
                f"{grammar}: a file does not say which base distribution its grammar was trained with: "
                f"smoothing with {PCFG} (--base names another)"
            )
        shown = stack.enter_context(progress("parse", "sentences"))
        parsed = find_trees(
            lines, stack.enter_context(open(grammar)) if is_store else grammar, options=request,
            progress=lambda done: shown.update(done, len(lines), done),
        )  # fmt: skip
        flat = [number for number, one in enumerate(parsed, 1) if not one.found]
        for number in flat:
            note(f"{sentences}: line {number}: no parse: its tree is flat")
        trees = [one.tree for one in parsed]
        if output == STANDARD_OUTPUT:
            sys.stdout.writelines(tree + "\n" for tree in trees)
            return
        write_lines(Path(output), trees)
    note(f"{output}: {plural(len(trees), 'sentence')}, {len(flat):,} of them without a parse")
