"""Commands that run servers: serve, browse."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import BAD_INPUT, interruptible, named_store, open_or_create, print_note, store_url
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import ShutdownTimeoutError, UsageError
from hierogram.daemon.shared_options import HOST, PORT, SPOOL
from hierogram.storage.options import Option


@with_options
def serve(
    context: typer.Context,
    config: Annotated[Path | None, Option("Configuration file (TOML).", metavar="FILE", shown="none")] = None,
    spool: Annotated[Path | None, SPOOL] = None,
    host: Annotated[str | None, HOST] = None,
    port: Annotated[int | None, PORT] = None,
) -> None:
    """Run the daemon: ingest files as they arrive, and sample new pairs before settled pairs.

    Every key of the configuration can be set in the environment, such as HIEROGRAM_SPOOL__FOLDER for folder in [spool].
    SIGTERM and Ctrl-C stop the daemon after it has committed its current work; a second signal stops it at once. SIGHUP
    reloads the configuration file.
    """
    from hierogram.daemon.serving.signals import exit_now, install_signal_handlers

    install_signal_handlers()
    from hierogram.daemon.configuration import load_configuration

    overrides: dict[str, object] = {"store": named_store(context), "spool_folder": spool}
    overrides |= {"http_host": host, "http_port": port}
    configuration = load_configuration(config, **overrides)
    with open_or_create(configuration.store) as opened:
        # Check the lease before the slow imports, so that a second daemon fails at once.
        opened.store.check_lease()
        from hierogram.daemon.serving.service import serve as run
        from hierogram.daemon.web.server import HttpLoop

        if opened.created:
            others = "(to choose others, run `hierogram init` before the first start)"
            print_note(f"{opened.url}: created a store with the default settings {others}")
        try:
            run(opened, configuration, config, overrides, HttpLoop)
        except ShutdownTimeoutError as error:
            # Exit at once, because a normal exit would wait for the thread that has not ended.
            print_note(f"hierogram: {error}")
            exit_now(BAD_INPUT)


@with_options
def browse(
    context: typer.Context,
    named: Annotated[str | None, Option("Store to show, as in --store.", metavar="[STORE]", positional=True)] = None,
    host: Annotated[str | None, HOST] = None,
    port: Annotated[int | None, PORT] = None,
) -> None:
    """Show a store in the browser, read-only. Search rules, view pairs and derivations, run SQL queries.

    A daemon (`hierogram serve`) serves the same pages; this command does not need one. Addresses other than loopback
    require a token, in the environment variable HIEROGRAM_HTTP__TOKEN. Press Ctrl-C to stop.
    """
    from hierogram.daemon.configuration import load_configuration
    from hierogram.daemon.web.server import browse as serve_pages

    if named is not None and named_store(context) is not None:
        raise UsageError("STORE and --store are mutually exclusive")
    configuration = load_configuration(None, http_host=host, http_port=port).http

    def ready(url: str, address: str) -> None:
        print(f"{url} at {address}")
        # Flush so that a reader of a pipe receives the address at once.
        sys.stdout.flush()
        print_note("press Ctrl-C to stop")

    with interruptible("nothing was changed"):
        serve_pages(named or store_url(context), configuration, ready)
