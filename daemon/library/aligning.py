"""Word alignment of texts, optionally with the counts of a store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.library.options import PathLike, resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Steps
from hierogram.daemon.text.pipeline import TextPipeline, make_pipeline

if TYPE_CHECKING:
    from hierogram.daemon.learning.alignment.aligning import AlignedCorpus
    from hierogram.daemon.library.keywords import AlignKeywords


def align(
    source: PathLike | Iterable[str],
    target: PathLike | Iterable[str],
    *,
    priors: GrammarStore | None = None,
    tokenize: tuple[str, str] | None = None,
    tokenized: bool = False,
    options: AlignOptions | None = None,
    progress: Steps | None = None,
    **overrides: Unpack[AlignKeywords],
) -> AlignedCorpus:
    """Align sentences with their translations. The result yields the links of each pair.

    `source` and `target` are sentences, or files with one sentence per line. With `priors`, the aligner starts from the
    counts of a store, and text is tokenized like the text of the store. `tokenize`, such as `("fr", "en")`, selects the
    tokenizers of two languages. With `tokenized`, words are separated by spaces. Options are the fields of
    `AlignOptions`. Links are (source, target, probability), with words numbered from 0. The same input, options and
    counts give the same links for any number of threads. Raises `UsageError`, `InputError`, `AlignmentInputError`.
    """
    from hierogram.daemon.learning.alignment.aligning import align
    from hierogram.daemon.learning.stored_links import load_counts, words_and_stems

    pipeline = resolve_text_pipeline(priors, tokenize, tokenized)
    sides = [
        map(side.tokens, open_sentences(lines))
        for side, lines in ((pipeline.source, source), (pipeline.target, target))
    ]
    # With word parts, keep the lines in lists, because `to_words` reads them again.
    source_lines, target_lines = [list(side) for side in sides] if pipeline.word_parts else sides
    store = None if priors is None else priors.store
    read_prior = None if store is None else lambda *sides: load_counts(store, words_and_stems(*sides))
    aligned = align(source_lines, target_lines, resolve_options(AlignOptions, options, overrides), progress, read_prior)
    return aligned.to_words(source_lines, target_lines) if pipeline.word_parts else aligned


def resolve_text_pipeline(
    store: GrammarStore | None, tokenize: tuple[str, str] | None, tokenized: bool
) -> TextPipeline:
    """Return the text pipeline of a store or of the defaults, with these changes. Raises `UsageError`."""
    if tokenized and tokenize is not None:
        raise UsageError("tokenize and tokenized are mutually exclusive")
    pipeline = make_pipeline({} if store is None else store.settings(), tokenize=tokenize)
    return pipeline.for_tokenized() if tokenized else pipeline


def open_sentences(lines: PathLike | Iterable[str]) -> Iterable[str]:
    """Return `lines`, or the sentences of the file if `lines` is a path. Raises `InputError`."""
    if not isinstance(lines, str | Path):
        return lines
    from hierogram.daemon.text.lines import read_sentences

    return read_sentences(str(lines))
