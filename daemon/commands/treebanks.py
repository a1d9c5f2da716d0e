"""The commands around trees that need no store: parse, evaluate-parse."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, interruptible, note, plural, say, say_json
from hierogram.daemon.commands.grammar import announce_compilation
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from hierogram.daemon.treebanks.evaluation import Score

STANDARD_OUTPUT = Path("-")


def parse(
    grammar: Annotated[
        str,
        typer.Argument(
            metavar="GRAMMAR",
            help="Lines of `(NP (DT the) (NN)) ||| 17`, fragment and count; or a store of trees, as for --store.",
        ),
    ],
    sentences: Annotated[str, typer.Argument(metavar="FILE", help="Sentences, one a line; - is standard input.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Trees to write; .gz or .zst compresses.")
    ] = STANDARD_OUTPUT,
    method: Annotated[
        str,
        typer.Option(
            help="mer (tree of most expected rules), mpd (tree of the best derivation), mpp (tree drawn most often)."
        ),
    ] = "mer",
    draws: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Derivations to draw; 0 takes exact expectations for mer.",
            show_default="0 for mer, 1000 for mpp",
        ),
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="Label over whole sentences.", show_default="TOP, or as in the store")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random streams.")] = 1,
    binary: Annotated[bool, typer.Option("--binary", help="Leave the marks of binarisation, `@NP`, in.")] = False,
) -> None:
    """Parse sentences with a grammar of tree fragments; trees in brackets, line for line.

    Tokens are separated by spaces. Words that the grammar does not know are parsed as their class. A sentence without
    a parse gets a flat tree, and an empty line stays empty.
    """
    announce_compilation()
    from hierogram.daemon.alignment.files import read_sentences, write_lines
    from hierogram.daemon.treebanks.approximation import approximate
    from hierogram.daemon.treebanks.grammars import binarised, read_grammar
    from hierogram.daemon.treebanks.parsing import METHODS, MPP, Parser
    from hierogram.daemon.treebanks.transformations import NO_BINARISATION, RIGHT, Transformations, restored

    if method not in METHODS:
        raise UsageError(f"--method {method}: there are {', '.join(METHODS)}")
    trees, flat = [], 0
    with interruptible("no trees were written"):
        lines = [[word for word in line.replace("\t", " ").split(" ") if word] for line in read_sentences(sentences)]
        priors, how = None, Transformations()
        if grammar.endswith(".db") or "://" in grammar:
            from hierogram.daemon.treebanks.stored import stored_grammar

            fragments, priors, how = stored_grammar(grammar)
        else:
            fragments = read_grammar(grammar)
        top = root or how.root
        how = replace(how, root=top, binarisation=NO_BINARISATION if binary else RIGHT)
        parser = Parser(
            approximate(binarised(fragments), top, priors),
            top,
            (1000 if method == MPP else 0) if draws is None else draws,
            seed,
        )
        with progress("parse", "sentences") as shown:
            for number, words in enumerate(lines):
                if words:
                    parsed = parser.parse(words, number, (method,))
                    flat += not parsed.found
                    if not parsed.found:
                        note(f"{sentences}: line {number + 1}: no parse: its tree is flat")
                trees.append(str(restored(parsed.trees[method], how)) if words else "")
                shown.update(number + 1, len(lines), number + 1)
        if output == STANDARD_OUTPUT:
            sys.stdout.writelines(tree + "\n" for tree in trees)
            return
        write_lines(output, trees)
    note(f"{output}: {plural(len(trees), 'sentence')}, {flat:,} of them without a parse")


def evaluate_parse(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Right trees, in Penn brackets.")],
    hypothesis: Annotated[str, typer.Argument(metavar="HYP", help="Trees to evaluate.")],
    as_json: AsJson = False,
) -> None:
    """Compare trees with right ones as EVALB does with COLLINS.prm: labelled precision, recall, F1, exact matches.

    Functional tags and traces of GOLD do not count.
    """
    from hierogram.daemon.treebanks.evaluation import CUTOFF, evaluate
    from hierogram.daemon.treebanks.reading import read_trees

    right, found = read_trees(gold), read_trees(hypothesis)
    if len(found) != len(right):
        raise InputError(
            f"{hypothesis} has {plural(len(found), 'tree')}, {gold} {plural(len(right), 'tree')}: their numbers differ"
        )
    result = evaluate(right, found)
    if as_json:
        say_json(asdict(result))
        return
    _say_score("all sentences", result.all)
    _say_score(f"at most {CUTOFF} words", result.up_to_cutoff)


def _say_score(which: str, score: "Score") -> None:
    say(
        f"{which}: {score.sentences:,}  precision {score.precision:.4f}  recall {score.recall:.4f}  F1 {score.f1:.4f}  "
        f"exact {score.exact:.4f}  tags {score.tagging:.4f}"
    )
