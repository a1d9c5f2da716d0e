"""Translation extension of the daemon: commands, the section `[translating]`, routes and a page."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.extensions import TRANSLATE, Command, Extension
from hierogram.tools.translation.commands import evaluate, lm, translate, tune
from hierogram.tools.translation.options import NO_MODEL, DecodingOptions

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.configuration import Configuration
    from hierogram.daemon.exports.options import ExportOptions
    from hierogram.daemon.learning.kinds.kind import LoadedBatch, State
    from hierogram.daemon.library.store import GrammarStore
    from hierogram.daemon.web.pages.rendering import PageContext
    from hierogram.daemon.web.protocol.context import Page, WebContext
    from hierogram.samplers.grammar.kinds import GrammarKind


def _check(configuration: "Configuration") -> None:
    section = configuration.section(DecodingOptions)
    for key in ("lm", "weights", "glossary"):
        file = getattr(section, key)
        is_folder = key == "lm" and file is not None and Path(file).is_dir()
        if file not in (None, NO_MODEL) and not is_folder and not Path(file).is_file():
            raise UsageError(f"translating.{key}: {file}: file not found")


def _pack(grammar: "GrammarStore | str", file: Path, options: "ExportOptions") -> int:
    from hierogram.tools.translation.library import Decoder

    assert options.max_scope is not None
    decoder = Decoder(
        grammar, max_scope=options.max_scope, posterior_mean=options.posterior_mean,
        current_sample=options.current_sample,
    )  # fmt: skip
    return decoder.pack(file)


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.translation.web import WebTranslator, api_routes

    yield api_routes(context.shared(WebTranslator), context.threads.translations)


def _pages(context: "WebContext", page: "PageContext") -> "Iterable[Page]":
    from hierogram.daemon.web.protocol.context import Page
    from hierogram.tools.translation.web import WebTranslator, page_routes

    yield Page("translate", "/translate", "Translate", page_routes(page, context.shared(WebTranslator)))


def _warm_up(grammar_kind: "GrammarKind", loaded: "LoadedBatch", state: "State") -> None:
    from hierogram.samplers.grammar.kinds import TRANSLATION
    from hierogram.tools.translation.translating import warm_up

    if TRANSLATION in grammar_kind.capabilities:
        warm_up(loaded, state)


EXTENSION = Extension(
    commands=[
        Command(TRANSLATE, translate, "hierogram translate grammar.cdec.gz news.fr --lm news.lm -o news.en"),
        Command(TRANSLATE, lm, "hierogram lm news.en --tokenize en -o news.lm -o news.arpa.gz --order 3"),
        Command(TRANSLATE, tune, "hierogram tune grammar.cdec.gz dev.fr -r dev.en --lm news.lm -o weights.toml"),
        Command(TRANSLATE, evaluate, "hierogram evaluate old.en new.en -r test.en"),
    ],
    sections={"translating": DecodingOptions},
    check=_check,
    pack=_pack,
    routes=_routes,
    pages=_pages,
    templates="hierogram.tools.translation",
    warm_up=_warm_up,
)
