"""The command that parses: parse."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import grammar_and_sentences, interruptible, note, plural
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.commands.learning import announce_compilation
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.treebanks.requests import ParseRequest
from hierogram.samplers.grammar.settings import PCFG
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.treebanks.parsing import Parser
    from hierogram.daemon.treebanks.transformations import Transformations


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
    from hierogram.daemon.treebanks.transformations import restored

    grammar, is_store, sentences = grammar_and_sentences(context, files)
    trees, flat = [], 0
    with interruptible("no trees were written"):
        lines = [[word for word in line.replace("\t", " ").split(" ") if word] for line in read_sentences(sentences)]
        parser, how = _parser(grammar, is_store, request)
        with progress("parse", "sentences") as shown:
            for number, words in enumerate(lines):
                if words:
                    parsed = parser.parse(words, number, (request.method,))
                    flat += not parsed.found
                    if not parsed.found:
                        note(f"{sentences}: line {number + 1}: no parse: its tree is flat")
                trees.append(str(restored(parsed.trees[request.method], how)) if words else "")
                shown.update(number + 1, len(lines), number + 1)
        if output == STANDARD_OUTPUT:
            sys.stdout.writelines(tree + "\n" for tree in trees)
            return
        write_lines(Path(output), trees)
    note(f"{output}: {plural(len(trees), 'sentence')}, {flat:,} of them without a parse")


def _parser(grammar: str, is_store: bool, request: ParseRequest) -> "tuple[Parser, Transformations]":
    """The parser, and how its trees are undone; a note where a file leaves open what its grammar was trained with."""
    from hierogram.daemon.treebanks.approximation import approximate
    from hierogram.daemon.treebanks.grammars import binarized, read_grammar, stored_grammar
    from hierogram.daemon.treebanks.parsing import Parser
    from hierogram.daemon.treebanks.transformations import NO_BINARIZATION, RIGHT, Transformations

    priors, how, base = None, Transformations(), request.base
    if is_store:
        fragments, priors, how, trained = stored_grammar(grammar, request.drawn)
        base = base or trained
    elif request.drawn:
        raise UsageError(f"{grammar}: --drawn is for stores: a file has one count for each fragment")
    else:
        fragments = read_grammar(grammar)
        if base is None:
            base = PCFG
            note(
                f"{grammar}: a file does not say which base distribution its grammar was trained with: "
                f"smoothing with {base} (--base names another)"
            )
    top = request.root or how.root
    how = replace(how, root=top, binarization=NO_BINARIZATION if request.binary else RIGHT)
    known = approximate(binarized(fragments), top, priors, base=base)
    return Parser(known, top, request.draws_taken, request.seed), how
