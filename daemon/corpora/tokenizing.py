"""Tokens made from running text, by sacremoses, for pairs that come without an alignment."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from hierogram.daemon.corpora.validation import Fields
from hierogram.daemon.exceptions import UsageError

Tokenize = Callable[[bytes], bytes]


def tokenizer(language: str) -> Tokenize:
    """Tokenizes text in the language (`en`, `fr`, …); what is no UTF-8 stays as it is, for validation to name.

    Raises `UsageError` where sacremoses is not installed.
    """
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise UsageError("--tokenize needs sacremoses: pip install 'hierogram[tokenize]'") from error
    moses = MosesTokenizer(lang=language)

    def tokenize(line: bytes) -> bytes:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return line
        # Left as they are, & and quotes are what other tools and people see, too.
        return str(moses.tokenize(text, return_str=True, escape=False)).encode()

    return tokenize


def tokenized(fields: Iterator[Fields], source: Tokenize, target: Tokenize) -> Iterator[Fields]:
    """The same lines with their sides tokenized, where they have no alignment that counts tokens already."""
    for chunk in fields:
        raw = [alignment is None for alignment in chunk.alignments]
        yield replace(
            chunk,
            sources=[source(line) if bare else line for line, bare in zip(chunk.sources, raw, strict=True)],
            targets=[target(line) if bare else line for line, bare in zip(chunk.targets, raw, strict=True)],
        )
