"""Tokens made from running text, by sacremoses, for pairs that come without an alignment."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from hierogram.daemon.corpora.validation import Fields
from hierogram.daemon.exceptions import UsageError

Tokenize = Callable[[bytes], bytes]

_ATTACHED = re.compile(r"""\w[.!?…。！？]+["'»”’)\]]*\s*$""")
"""A line's end where the last word has a full stop, an exclamation or a question mark attached."""


def tokenizer(language: str) -> Tokenize:
    """Tokenizes text in the language (`en`, `fr`, …); what is no UTF-8 stays as it is, for validation to name.

    Raises `UsageError` where sacremoses is not installed, or has no rules for the language.
    """
    try:
        from sacremoses import MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise UsageError("--tokenize needs sacremoses: pip install 'hierogram[tokenize]'") from error
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise UsageError(f"--tokenize: there are no rules for {language!r}; there are for {', '.join(known)}")
    moses = MosesTokenizer(lang=language)

    def tokenize(line: bytes) -> bytes:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return line
        # Left as they are, & and quotes are what other tools and people see, too.
        return str(moses.tokenize(text, return_str=True, escape=False)).encode()

    return tokenize


def tokenized(chunk: Fields, source: Tokenize, target: Tokenize) -> Fields:
    """The same lines with their sides tokenized, where they have no links that count tokens already."""
    raw = [alignment is None and k not in chunk.known for k, alignment in enumerate(chunk.alignments)]
    return replace(
        chunk,
        sources=[source(line) if bare else line for line, bare in zip(chunk.sources, raw, strict=True)],
        targets=[target(line) if bare else line for line, bare in zip(chunk.targets, raw, strict=True)],
    )


def running(lines: Iterable[bytes]) -> int:
    """How many lines look like running text: they end in a word with its punctuation."""
    return sum(_ATTACHED.search(line.decode(errors="replace")) is not None for line in lines)
