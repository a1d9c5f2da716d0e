"""Integrations extension: the command `mcp`, LibreTranslate, MCP, and translation-memory routes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from hierogram.daemon.cli.common import open_chosen_store
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.extensions import SERVE, Command, Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.web.protocol.access import ProtocolApp
    from hierogram.daemon.web.protocol.context import WebContext


@with_options
def mcp(context: typer.Context) -> None:
    """Serve a store to language models: Model Context Protocol on standard input and output.

    An MCP client starts this command. A daemon serves the same tools over HTTP at `/mcp` (`mcp` in [http]). With the
    environment variable HIEROGRAM_HTTP__MCP=add, models can also store pairs. A daemon on the same store or `hierogram
    learn` learns from these pairs. HIEROGRAM_TRANSLATING__LM and similar variables configure translation.
    """
    from hierogram.daemon.configuration import load_configuration
    from hierogram.daemon.web.protocol.threads import ThreadPools
    from hierogram.tools.integrations.mcp_server import McpTools, make_server
    from hierogram.tools.translation.options import DecodingOptions
    from hierogram.tools.translation.store_translator import StoreTranslator

    configuration = load_configuration()
    with open_chosen_store(context) as opened:
        translator = StoreTranslator(opened, configuration.section(DecodingOptions).to_translate())
        tools = McpTools(opened, translator)
        make_server(tools, ThreadPools(), may_add=configuration.http.mcp == "add").run("stdio")


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.integrations.memory_routes import memory_routes

    yield memory_routes(context.service, context.threads.downloads)


def _apps(context: "WebContext") -> "Iterable[ProtocolApp]":
    from hierogram.daemon.web.protocol.access import ProtocolApp
    from hierogram.tools.integrations.libretranslate import is_libretranslate, libretranslate, problem_response
    from hierogram.tools.integrations.mcp_server import PATH, McpTools, make_server, over_http
    from hierogram.tools.translation.web import WebTranslator

    http, translator = context.http, context.shared(WebTranslator)
    if http.mcp != "off":
        tools = McpTools(context.service.grammar_store, translator)
        app, lifespan = over_http(make_server(tools, context.threads, may_add=http.mcp == "add"))
        yield ProtocolApp(lambda scope: scope["path"] == PATH, app, lifespan=lifespan)
    if http.libretranslate:
        app = libretranslate(translator, context.sessions, context.rate_limiter, context.threads)
        yield ProtocolApp(is_libretranslate, app, problem_response)


EXTENSION = Extension(
    commands=[Command(SERVE, mcp, "hierogram --store sqlite:///news.db mcp")], routes=_routes, apps=_apps
)
