"""Command `mcp`."""

import typer

from hierogram.daemon.cli.common import open_chosen_store
from hierogram.daemon.cli.flags import with_options


@with_options
def mcp(context: typer.Context) -> None:
    """Serve a store to language models (MCP). Speaks the Model Context Protocol on standard input and output.

    An MCP client starts this command. A daemon serves the same tools over HTTP at `/mcp` (`mcp` in [http]). The
    environment variable HIEROGRAM_HTTP__MCP=add also allows models to store pairs, which are learned by a daemon of the
    same store or by `hierogram learn`. HIEROGRAM_TRANSLATING__LM and similar variables configure translation.
    """
    from hierogram.daemon.configuration import load_configuration
    from hierogram.daemon.web.protocol.threads import Threads
    from hierogram.tools.integrations.mcp.server import make_server, make_tools
    from hierogram.tools.translation.options import DecodingOptions

    configuration = load_configuration()
    with open_chosen_store(context) as opened:
        tools = make_tools(opened, configuration.section(DecodingOptions).to_translate())
        make_server(tools, Threads(), may_add=configuration.http.mcp == "add").run("stdio")
