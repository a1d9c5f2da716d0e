"""Library functions for parsing and for the evaluation of parses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Unpack

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.library.aligning import open_sentences
from hierogram.daemon.library.options import PathLike, resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.treebanks.reading import read_trees
from hierogram.daemon.text.treebanks.transformations import Transformations, restore_tree
from hierogram.daemon.text.validation import split_tokens
from hierogram.samplers.grammar.settings import PCFG
from hierogram.tools.treebanks.approximation import approximate
from hierogram.tools.treebanks.evaluation import BracketScore, evaluate
from hierogram.tools.treebanks.grammars import binarize, load_grammar, read_grammar
from hierogram.tools.treebanks.parsing import Parser
from hierogram.tools.treebanks.requests import ParseRequest

if TYPE_CHECKING:
    from hierogram.tools.keywords import ParseKeywords


class ParsedText(NamedTuple):
    """Bracketed tree, empty for an empty line. If no parse was `found`, the tree is flat."""

    tree: str
    found: bool


def parse(
    sentences: PathLike | Iterable[str],
    grammar: PathLike | GrammarStore,
    *,
    options: ParseRequest | None = None,
    progress: Callable[[int], None] = lambda _: None,
    **chosen: Unpack[ParseKeywords],
) -> list[ParsedText]:
    """Parse sentences, or a file of them, with a grammar of tree fragments from a store of trees or from a file.

    Spaces separate tokens. Options are the fields of `ParseRequest`. `progress` is called with the number of parsed
    sentences. A file of fragments does not name its base distribution, so the default is `pcfg`. Raises `InputError`,
    `UsageError`, `WrongKindError`.
    """
    request = resolve_options(ParseRequest, options, chosen)
    lines = open_sentences(sentences)
    priors, transformations, base = None, Transformations(), request.base
    if isinstance(grammar, GrammarStore):
        fragments, priors, transformations, trained = load_grammar(grammar.store, request.current_sample)
        base = base or trained
    elif request.current_sample:
        raise UsageError(
            f"{grammar}: --current-sample requires a store, because a file has a single count for each fragment"
        )
    else:
        fragments = read_grammar(str(grammar))
    top = request.root or transformations.root
    transformations = replace(transformations, root=top)
    parser = Parser(
        approximate(binarize(fragments), top, priors, base=base or PCFG), top, request.draws_taken, request.seed
    )
    parsed = []
    for number, line in enumerate(lines):
        words = split_tokens(line)
        if words:
            parses = parser.parse(words, number, (request.method,))
            parsed.append(ParsedText(str(restore_tree(parses.trees[request.method], transformations)), parses.found))
        else:
            parsed.append(ParsedText("", True))
        progress(number + 1)
    return parsed


def evaluate_trees(trees: PathLike, reference: PathLike) -> dict[str, BracketScore]:
    """Evaluate a file of trees like EVALB, on `all` sentences and on sentences `up_to_cutoff`. Raises `InputError`."""
    gold, parses = read_trees(str(reference)), read_trees(str(trees))
    if len(parses) != len(gold):
        raise InputError(f"{trees} has {len(parses):,} trees, but {reference} has {len(gold):,}")
    return evaluate(gold, parses)
