"""What a store's settings do to pairs on their way in: their languages are checked, their text is made tokens."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hierogram.daemon.corpora.tokenizing import Tokenize, tokenized, tokenizer
from hierogram.daemon.corpora.validation import Fields
from hierogram.daemon.exceptions import UsageError
from hierogram.samplers.grammar.kinds import PAIRS, notation_of
from hierogram.samplers.grammar.limits import LONGEST_ITG_SIDE
from hierogram.samplers.grammar.settings import ITG_ALIGNER
from hierogram.storage.records import LOWERED, Settings

Languages = tuple[str, str]
"""Source and target, as in ("fr", "en")."""

_COMPRESSED = (".gz", ".zst")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is done to the pairs of an input; `languages` are None where nobody knows them."""

    languages: Languages | None = None
    tokenizers: tuple[Tokenize, Tokenize] | None = None
    lower: bool = False

    def prepared(self, fields: Fields) -> Fields:
        """The same lines, tokenised where they have no links that count tokens already, and lowercased."""
        if self.tokenizers is not None:
            fields = tokenized(fields, *self.tokenizers)
        if self.lower:
            fields = replace(fields, sources=_lowered(fields.sources), targets=_lowered(fields.targets))
        return fields


def two_languages(given: str, option: str) -> Languages:
    """Source and target of a text as `fr,en`; raises `UsageError` where it does not name two languages."""
    languages = given.split(",")
    if len(languages) != 2 or not all(map(_LANGUAGE.fullmatch, languages)):
        raise UsageError(f"{option} {given}: name two languages, source and target: {option} fr,en")
    return languages[0], languages[1]


def check_settings(settings: Settings) -> None:
    """Raises `UsageError` where a store cannot have these settings of languages and tokens."""
    notation = notation_of(settings.grammar)
    if settings.max_tokens > notation.longest:
        raise UsageError(
            f"--max-tokens {settings.max_tokens}: a store of {notation.holds} takes sides of {notation.longest} tokens "
            "at most"
        )
    if settings.aligner == ITG_ALIGNER and settings.max_tokens > LONGEST_ITG_SIDE:
        raise UsageError(
            f"--max-tokens {settings.max_tokens}: the aligner {ITG_ALIGNER} takes sides of {LONGEST_ITG_SIDE} tokens "
            "at most"
        )
    if settings.languages:
        two_languages(",".join(settings.languages), "--languages")
        if notation.takes != PAIRS:
            raise UsageError(
                f"--languages: a store of {notation.holds} has sentences of one language, and needs none named"
            )
    if settings.tokenize and not settings.languages:
        raise UsageError("--tokenize: name the languages whose rules divide text into tokens, as in --languages fr,en")
    prepare(settings)


def prepare(settings: Settings, languages: Languages | None = None, tokenize: Languages | None = None) -> Preparation:
    """What a store with these settings does with an input of these `languages`, to be divided by rules of `tokenize`.

    Raises `UsageError` where the languages are not the store's, or there are no rules for one of them.
    """
    for given, named in ((languages, "languages"), (tokenize, "tokenize")):
        if given and settings.languages and given != settings.languages:
            raise UsageError(
                f"{named} {','.join(given)}: the store is of {','.join(settings.languages)} (source, target): "
                "give the input the other way about, or take another store"
            )
    own = (settings.languages[0], settings.languages[1]) if settings.languages else None
    rules = tokenize or (own if settings.tokenize else None)
    return Preparation(
        languages or own or tokenize,
        (tokenizer(rules[0]), tokenizer(rules[1])) if rules else None,
        settings.case == LOWERED,
    )


def check_names(paths: Sequence[str], languages: Languages | None) -> None:
    """Raises `UsageError` where the names of source and target file end in the languages the other way about."""
    if languages is None or len(paths) < 2:
        return
    if (_ending(paths[0]), _ending(paths[1])) == (languages[1], languages[0]) != languages:
        given = " ".join((paths[1], paths[0], *paths[2:]))
        raise UsageError(
            f"{paths[0]} {paths[1]}: the store is of {','.join(languages)} (source, target): hierogram ingest {given}"
        )


def _ending(path: str) -> str:
    name = os.path.basename(path)
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.rpartition(".")[2].lower()


def _lowered(lines: Sequence[bytes]) -> list[bytes]:
    return [_lower(line) for line in lines]


def _lower(line: bytes) -> bytes:
    try:
        return line.decode().lower().encode()
    except UnicodeDecodeError:
        # For validation to name.
        return line
