"""Extension that adds the LibreTranslate protocol, MCP, and translation-memory routes to the daemon."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hierogram.daemon.extensions import SERVE, Command, Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.web.protocol.context import ProtocolApp, WebContext


def _commands() -> "Iterable[Command]":
    from hierogram.tools.integrations.commands import mcp

    yield Command(SERVE, mcp, "hierogram --store sqlite:///news.db mcp")


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.integrations.memory_routes import memory_routes

    yield memory_routes(context.service, context.threads.downloads)


def _apps(context: "WebContext") -> "Iterable[ProtocolApp]":
    from hierogram.daemon.web.protocol.context import ProtocolApp
    from hierogram.tools.integrations.libretranslate import is_libretranslate, libretranslate, problem_response
    from hierogram.tools.integrations.mcp.server import PATH, make_server, over_http
    from hierogram.tools.integrations.mcp.tools import McpTools
    from hierogram.tools.translation.web import WebTranslation

    http, shared = context.http, context.shared(WebTranslation)
    if http.mcp != "off":
        tools = McpTools(context.service.opened, shared.translator, shared.corrections)
        app, lifespan = over_http(make_server(tools, context.threads, may_add=http.mcp == "add"))
        yield ProtocolApp(lambda scope: scope["path"] == PATH, app, lifespan=lifespan)
    if http.libretranslate:
        app = libretranslate(shared.translator, shared.corrections, context.sessions, context.rates, context.threads)
        yield ProtocolApp(is_libretranslate, app, problem_response)


EXTENSION = Extension(commands=_commands, routes=_routes, apps=_apps)
