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
from hierogram.tools.treebanks.requests import MPP, MPP_DRAWS, ParseRequest

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
    """Parse sentences, or the lines of the file `sentences`, with the tree fragments of a store or a file.

    Spaces separate tokens. Options are the fields of `ParseRequest`. `progress` is called with the number of parsed
    sentences. The default `base` for a file of fragments is `pcfg`, because the file does not name its base
    distribution. Raises `InputError`, `UsageError`, `WrongKindError`.
    """
    request = resolve_options(ParseRequest, options, chosen)
    lines = open_sentences(sentences)
    priors, transformations, base = None, Transformations(), request.base
    if isinstance(grammar, GrammarStore):
        tree_grammar, priors, transformations, trained_base = load_grammar(grammar.store, request.current_sample)
        base = base or trained_base
    elif request.current_sample:
        raise UsageError(
            f"{grammar}: --current-sample requires a store, because a file has a single count for each fragment"
        )
    else:
        tree_grammar = read_grammar(str(grammar))
    root, draws = request.root or transformations.root, request.draws
    if draws is None:
        draws = MPP_DRAWS if request.method == MPP else 0
    transformations = replace(transformations, root=root)
    parser = Parser(approximate(binarize(tree_grammar), root, priors, base=base or PCFG), root, draws, request.seed)
    parsed = []
    for number, line in enumerate(lines):
        words = split_tokens(line)
        if words:
            result = parser.parse(words, number, request.method)
            parsed.append(ParsedText(str(restore_tree(result.tree, transformations)), result.found))
        else:
            parsed.append(ParsedText("", True))
        progress(number + 1)
    return parsed


def evaluate_trees(trees: PathLike, reference: PathLike) -> dict[str, BracketScore]:
    """Score trees like EVALB: `all` sentences, and short sentences `up_to_cutoff`. Raises `InputError`."""
    gold, parses = read_trees(str(reference)), read_trees(str(trees))
    if len(parses) != len(gold):
        raise InputError(f"{trees} has {len(parses):,} trees, but {reference} has {len(gold):,}")
    return evaluate(gold, parses)
