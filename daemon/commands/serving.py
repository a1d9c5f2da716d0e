"""Commands of the daemon, and those that stand in for it or speak with it: serve, browse, datasette, withdraw."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    chosen_store,
    interruptible,
    note,
    nouns_of,
    open_or_make,
    plural,
    say,
    say_json,
    store_url,
)
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from hierogram.storage.store import Store


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration, TOML; see docs/daemon.md.")
    ] = None,
    spool: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to watch for files; overrides the configuration.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen at; overrides the configuration.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen at, 0 for any free one; overrides the configuration."),
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
    given: dict[str, object] = {
        "store": store or (chosen.url if chosen.given else None),
        "spool_folder": spool,
        "http_host": host,
        "http_port": port,
    }
    configuration = load_configuration(config, **given)
    opened, made = open_or_make(configuration.store)
    announce_compilation()
    from hierogram.daemon.serving.service import Service
    from hierogram.daemon.serving.service import serve as run
    from hierogram.daemon.web.server import HttpLoop

    def doors(service: Service) -> list[HttpLoop]:
        return [
            HttpLoop(
                service,
                lambda: service.configuration.http,
                configuration.daemon.grace_seconds / 2,
                lambda: service.configuration.intake.limits(),
                lambda: service.configuration.translating.options(),
            )
        ]

    with opened:
        if made:
            note(f"{opened.url}: made a new store with the default settings (`hierogram init` takes others)")
        run(opened, configuration, config, given, doors)


def browse(
    context: typer.Context,
    named: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Store to look at, as --store.")] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen at.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen at, 0 for any free one.", show_default="8470")
    ] = None,
    store: StoreUrl = None,
) -> None:
    """Show a store in the browser: search rules, look at pairs and derivations, ask SQL. Nothing can be changed.

    No daemon is needed; where one runs, it has the same pages (`hierogram serve`). At any address but loopback a token
    is needed, HIEROGRAM_HTTP__TOKEN in the environment. Ctrl-C ends it.
    """
    from hierogram.daemon.configuration import load_configuration
    from hierogram.daemon.web.server import browse as serve_pages
    from hierogram.storage.browsing.reader import Reader

    if named is not None and store is not None:
        raise UsageError("name the store once: as STORE or with --store")
    configuration = load_configuration(None, http_host=host, http_port=port).http

    def ready(address: str) -> None:
        say(f"{reader.url} at {address}")
        # Nothing else is printed until it ends; who reads a pipe waits for the address.
        sys.stdout.flush()
        note("Ctrl-C ends it")

    with interruptible("nothing was changed"), Reader(named or store_url(context, store)) as reader:
        serve_pages(reader, configuration, ready)


def datasette(
    context: typer.Context,
    named: Annotated[str | None, typer.Argument(metavar="[STORE]", help="SQLite store, as --store.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="The configuration.")
    ] = Path("datasette.json"),
    store: StoreUrl = None,
) -> None:
    """Write a configuration for Datasette over an SQLite store: canned queries, facets off, a time limit.

    Datasette is a package of others (`pip install datasette`); it is not needed for anything here.
    """
    import json

    from hierogram.daemon.files import appearing
    from hierogram.daemon.grammar.datasette import datasette_configuration

    if named is not None and store is not None:
        raise UsageError("name the store once: as STORE or with --store")
    file, configuration = datasette_configuration(named or store_url(context, store))
    try:
        with appearing(output) as written:
            written.write(json.dumps(configuration, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from error
    say(f"{output}: now run  datasette serve {file} --config {output}")


def withdraw(
    context: typer.Context,
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Numbers of pairs.")] = None,
    corpus: Annotated[str | None, typer.Option(metavar="NAME", help="All pairs of this corpus.")] = None,
    origin: Annotated[
        str | None, typer.Option(metavar="FILE", help="All pairs of this input, named as in ingest_batches.origin.")
    ] = None,
    external_id: Annotated[
        list[str] | None, typer.Option("--external-id", metavar="ID", help="Pairs with this identifier of yours.")
    ] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Take pairs out of the store, with their derivations and all that they count.

    Several options together mean the pairs that meet all of them. Where a daemon runs, it does it, within seconds.
    What was withdrawn can be offered again.
    """
    from hierogram.storage.store import open_store

    chosen = corpus is not None or origin is not None or bool(external_id)
    if bool(ids) == chosen:
        raise UsageError("say which pairs: by their numbers, or by --corpus, --origin and --external-id")
    with (
        interruptible("what was withdrawn is gone; run the command again for the rest"),
        open_store(store_url(context, store)) as opened,
    ):
        found = ids or opened.choose_pairs(corpus=corpus, origin=origin, external_ids=external_id or ())
        if not found:
            raise InputError(f"no stored {nouns_of(opened).one} is like that: nothing was withdrawn")
        kind = nouns_of(opened)
        holder = opened.lease()
        number = _request(opened, found) if holder else _withdraw(opened, found)
    if not number:
        raise InputError(f"no stored {kind.one} has that number: nothing was withdrawn")
    if as_json:
        say_json({"pairs": number, "done": holder is None})
    elif holder:
        say(f"{plural(number, kind.one)}: `{holder.command}` (process {holder.pid} on {holder.host}) takes them out")
    else:
        say(f"{plural(number, kind.one)} withdrawn")


def _request(opened: "Store", ids: list[int]) -> int:
    from hierogram.daemon.learning.withdrawing import in_transactions

    return sum(len(opened.request_withdrawals(some)) for some in in_transactions(ids))


def _withdraw(opened: "Store", ids: list[int]) -> int:
    from hierogram.daemon.commands.grammar import announce_compilation

    announce_compilation()
    from hierogram.daemon.learning.lease import holding_lease
    from hierogram.daemon.learning.withdrawing import withdraw_all

    with holding_lease(opened, "hierogram withdraw"), progress("withdraw", nouns_of(opened).many) as shown:
        return withdraw_all(opened, ids, lambda done: shown.update(done, len(ids), done))
