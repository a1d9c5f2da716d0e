"""Files of trees: read, transformed, checked, made pairs of; the store is not asked, so strangers' files can be read
where reading can be killed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

from hierogram.daemon.child import SignOfLife
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.lines import LINES_A_CHUNK, LineFile, open_lines
from hierogram.daemon.corpora.reading import REPEATS_APART, Beginning, Checked, Part
from hierogram.daemon.corpora.recognition import check_trees
from hierogram.daemon.corpora.rejections import TOO_LONG, RejectionError
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.daemon.corpora.validation import reject
from hierogram.daemon.treebanks.candidates import candidate_lists, candidates
from hierogram.daemon.treebanks.forests import cleaned_forest, is_forest, packed, read_forest, transformed_forest
from hierogram.daemon.treebanks.reading import TreeText, decoded_tree, tree_texts
from hierogram.daemon.treebanks.transformations import Transformations, cleaned, transformed
from hierogram.daemon.treebanks.trees import Tree
from hierogram.daemon.treebanks.unknown_words import Vocabulary, vocabulary_of_sentences
from hierogram.samplers.exceptions import ForestTooLargeError
from hierogram.samplers.grammar.brackets import Parse, check_size, write_parse
from hierogram.storage.records import NewPairs, RejectedLine, in_runs

FORMAT = "trees"
LISTS = "nbest"


class Sentence(NamedTuple):
    """A sentence of the input with its transformed tree or forest, and the line where it begins."""

    line: int
    parse: Parse


class TreebankFile(NamedTuple):
    """A file of trees and packed forests, or `-`; with `lists`, of n-best lists, each of which becomes a forest."""

    path: str
    lists: bool = False
    limits: Limits = DEFAULT_LIMITS

    @property
    def format(self) -> str:
        """The name of what the file holds."""
        return LISTS if self.lists else FORMAT


class OpenTreebank(NamedTuple):
    """A file of trees that is open: its lines in chunks, the first of which have been looked at."""

    treebank: TreebankFile
    file: LineFile
    chunks: Iterator[list[bytes]]


@contextmanager
def open_treebank(treebank: TreebankFile, read_on: Callable[[], None] = lambda: None) -> Iterator[OpenTreebank]:
    """Opens a file; raises `InputError` where it cannot be read, or begins with lines of another kind."""
    with open_lines(treebank.path, treebank.limits, read_on) as file:
        chunks = file.chunks()
        first = list(islice(chunks, 1))
        check_trees(first[0] if first else [], file.name)
        yield OpenTreebank(treebank, file, chain(first, chunks))


def words_apart(
    alive: SignOfLife, treebank: TreebankFile, how: Transformations, max_tokens: int
) -> Iterator[frozenset[str]]:
    """The words that a store knows whose first trees are those of a file; for `Child.run`."""
    with open_treebank(treebank, alive) as opened:
        rejected: Counter[str] = Counter()
        lines = 0

        def words() -> Iterator[Sequence[str]]:
            nonlocal lines
            for text in sentences(opened, how, max_tokens):
                lines += 1
                if isinstance(text, Sentence):
                    yield text.parse.words
                else:
                    rejected[text.reason] += 1

        known = vocabulary_of_sentences(words(), how.rare).known
        treebank.limits.check_rejected(opened.file.name, lines, rejected)
        yield known


def read_apart(
    alive: SignOfLife, treebank: TreebankFile, how: Transformations, max_tokens: int, vocabulary: Vocabulary
) -> Iterator[Beginning | Part]:
    """The beginning of a file of trees, then what becomes of it; for `Child.run`."""
    with open_treebank(treebank, alive) as opened:
        yield Beginning(opened.file.name, treebank.format, opened.file.size)
        read = sentences(opened, how, max_tokens)
        yield from parts(read, vocabulary, Repeats(REPEATS_APART), lambda: opened.file.bytes_read)


def sentences(opened: OpenTreebank, how: Transformations, max_tokens: int) -> Iterator[Sentence | RejectedLine]:
    """The sentences of a file, and what is none, in their order."""
    lists = opened.treebank.lists
    for text in candidate_lists(opened.chunks) if lists else tree_texts(opened.chunks):
        try:
            parse = _of_list(text, how) if lists else _of_text(text.content, how)
            if len(parse.words) > max_tokens:
                raise RejectionError(
                    TOO_LONG,
                    f"the tree has {len(parse.words)} words, this store takes at most {max_tokens} "
                    "(`hierogram init --max-tokens`)",
                )
            check_size(parse)
            yield Sentence(text.line, parse)
        except RejectionError as rejection:
            yield reject(text.line, rejection, text.content)
        except ForestTooLargeError as error:
            yield reject(text.line, RejectionError(TOO_LONG, f"the tree has {error}"), text.content)


def parts(
    read: Iterator[Sentence | RejectedLine], vocabulary: Vocabulary, repeats: Repeats, bytes_read: Callable[[], int]
) -> Iterator[Part]:
    """What goes into the store in one transaction each, at least one."""
    try:
        first = True
        while (texts := list(islice(read, LINES_A_CHUNK))) or first:
            pairs = _pairs([text for text in texts if isinstance(text, Sentence)], vocabulary, repeats)
            rejected = in_runs(text for text in texts if isinstance(text, RejectedLine))
            yield Part(Checked(pairs, rejected), bytes_read(), running=False)
            first = False
    finally:
        repeats.close()


def _of_text(content: bytes, how: Transformations) -> Parse:
    """The transformed tree or packed forest of a text; raises `RejectionError`."""
    if is_forest(content):
        return transformed_forest(cleaned_forest(read_forest(content), how), how)
    return packed([transformed(cleaned(decoded_tree(content), how), how)])


def _of_list(listed: TreeText, how: Transformations) -> Parse:
    """The packed forest of an n-best list; raises `RejectionError`."""
    trees: list[Tree] = []
    for text in candidates(listed):
        try:
            trees.append(transformed(cleaned(decoded_tree(text.content), how), how))
        except RejectionError as rejection:
            where = f"line {text.line}, tree {len(trees) + 1} of the list"
            raise RejectionError(rejection.reason, f"{where}: {rejection.message}") from rejection
    return packed(trees)


def _pairs(sentences: Sequence[Sentence], vocabulary: Vocabulary, repeats: Repeats) -> NewPairs:
    words = [vocabulary.in_words(read.parse.words) for read in sentences]
    sources = [" ".join(known) for known in words]
    targets = [write_parse(Parse(known, read.parse.nodes)) for known, read in zip(words, sentences, strict=True)]
    alignments = [""] * len(sentences)
    return NewPairs(
        sources,
        targets,
        alignments,
        [len(read.parse.words) for read in sentences],
        [0] * len(sentences),
        [read.line for read in sentences],
        [None] * len(sentences),
        repeats.occurrences(sources, targets, alignments),
    )
