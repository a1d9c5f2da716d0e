"""Command `mcp`."""

import typer

from hierogram.daemon.cli.common import chosen_store
from hierogram.daemon.cli.flags import with_options


@with_options
def mcp(context: typer.Context) -> None:
    """Give language models a store as tools, over the Model Context Protocol, on standard input and output.

    A program that runs models starts it. Over HTTP the same is at `/mcp` of a daemon (`mcp` in [http]). With
    HIEROGRAM_HTTP__MCP=add in the environment models may store pairs, too, which a daemon of the same store, or
    `hierogram learn`, learns from; HIEROGRAM_TRANSLATING__LM and others say what is translated with.
    """
    from hierogram.daemon.configuration import load_configuration
    from hierogram.daemon.web.protocol.threads import Threads
    from hierogram.tools.integrations.mcp.server import desk_of, make_server
    from hierogram.tools.translation.options import DecodingOptions

    configuration = load_configuration()
    with chosen_store(context) as opened:
        desk = desk_of(opened, configuration.section(DecodingOptions).to_translate())
        make_server(desk, Threads(), may_add=configuration.http.mcp == "add").run("stdio")
