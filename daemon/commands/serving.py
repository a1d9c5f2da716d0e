"""Commands of the daemon: serve."""

from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.commands.common import StoreUrl, chosen_store, note, open_or_make


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration, TOML; see docs/daemon.md.")
    ] = None,
    spool: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to watch for files; overrides the configuration.")
    ] = None,
    store: StoreUrl = None,
) -> None:
    """Keep a store current: take in files as they appear, sample new pairs first and old ones when idle.

    Every key of the configuration can be set in the environment, HIEROGRAM_SPOOL__FOLDER for folder in [spool]. SIGTERM
    and Ctrl-C end the daemon when what it is at is committed, a second one at once; SIGHUP reads the file again.
    """
    from hierogram.daemon.commands.grammar import announce_compilation
    from hierogram.daemon.configuration import load_configuration

    chosen = chosen_store(context)
    given: dict[str, object] = {"store": store or (chosen.url if chosen.given else None), "spool_folder": spool}
    configuration = load_configuration(config, **given)
    opened, made = open_or_make(configuration.store)
    announce_compilation()
    from hierogram.daemon.serving.service import serve as run
    from hierogram.daemon.serving.warming import warm_up

    with opened:
        # Before the daemon says that it is ready, and while a signal still ends it at once.
        warm_up(opened.settings())
        if made:
            note(f"{opened.url}: made a new store with the default settings (`hierogram init` takes others)")
        run(opened, configuration, config, given)
