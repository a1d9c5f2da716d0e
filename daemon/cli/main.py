"""Command line of `hierogram`."""

import sys
from importlib.metadata import version
from itertools import chain
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hierogram.daemon.cli import exports, inspecting, learning, serving, stores
from hierogram.daemon.cli.common import BAD_INPUT, STORE_HELP, USAGE, was_given
from hierogram.daemon.exceptions import DaemonError, UsageError
from hierogram.daemon.extensions import INSPECT, LEARN, SERVE, STORE, TRANSLATE, Command, extensions
from hierogram.daemon.memory import relax_gc
from hierogram.daemon.progress import show_progress
from hierogram.samplers.exceptions import SamplerError
from hierogram.storage.exceptions import StoreError, StoreUrlError
from hierogram.storage.options import DEFAULT_STORE


class CommandGroup(TyperGroup):
    """Command group that lists its commands in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one help section for each group of commands."""
        widest = max(map(len, self.commands))
        for panel in (STORE, LEARN, INSPECT, TRANSLATE, SERVE):
            rows = [
                (name.ljust(widest), command.get_short_help_str(formatter.width - 6 - widest))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == panel
            ]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


app = typer.Typer(
    name="hierogram",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  hierogram ingest news.fr news.en news.align\n  hierogram learn\n  hierogram rules maison",
)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"hierogram {version('hierogram')}")
        raise typer.Exit


@app.callback()
def choose_store(
    context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", envvar="HIEROGRAM_STORE", metavar="URL", help=STORE_HELP)
    ] = DEFAULT_STORE,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn translation rules from sentence pairs, and keep learning as pairs arrive.

    Exit codes: 0 success, 1 a check found a problem or a difference, 2 wrong usage, 3 invalid input or store, 130
    interrupted by Ctrl-C, 143 by SIGTERM.
    """
    context.obj = store if was_given(context, "store") else None


_COMMANDS = (
    Command(STORE, stores.init, "hierogram --store sqlite:///news.db init --seed 7 --discount 0.4"),
    Command(STORE, stores.ingest, "hierogram ingest --corpus news news.fr.gz news.en.gz news.align.gz"),
    Command(STORE, stores.status, "hierogram status --json"),
    Command(STORE, stores.events, "hierogram events --after 120 --follow --json"),
    Command(STORE, stores.withdraw, "hierogram withdraw --corpus news"),
    Command(STORE, stores.verify, "hierogram verify || echo damaged"),
    Command(STORE, stores.repair, "hierogram repair --dry-run"),
    Command(STORE, stores.backup, "hierogram backup backups/monday.db"),
    Command(LEARN, learning.learn, "hierogram learn --sweeps 50"),
    Command(LEARN, learning.align, "hierogram align news.fr news.en --tokenize fr,en -o news.align"),
    Command(LEARN, learning.links, "hierogram links 17 --fixed '0-0 1-2' --forbidden 1-1"),
    Command(INSPECT, inspecting.rules, "hierogram rules --containing maison blanche --limit 5"),
    Command(INSPECT, inspecting.sql, 'hierogram sql "SELECT source, target FROM rule_table LIMIT 5"'),
    Command(TRANSLATE, exports.export, "hierogram export -o grammar.cdec.gz --format cdec --max-scope 2"),
    Command(TRANSLATE, exports.schedule, "hierogram schedule nightly --run"),
    Command(TRANSLATE, exports.diff, "hierogram diff grammars/news-20260101T030000Z grammars/latest"),
    Command(SERVE, serving.serve, "hierogram serve --spool incoming"),
    Command(SERVE, serving.browse, "hierogram browse hierogram-demo.db"),
)

for _command in chain(_COMMANDS, *(extension.commands for extension in extensions())):
    app.command(epilog=f"\b\nExample:\n  {_command.example}", rich_help_panel=_command.group)(_command.function)


def main(commands: typer.Typer | None = None) -> None:
    """Run the command line. Errors that a user can fix are printed as one line on standard error."""
    relax_gc()
    show_progress()
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the terminal's encoding lacks, instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        (commands or app)()
    except (DaemonError, StoreError, SamplerError) as error:
        print(f"hierogram: {error}", file=sys.stderr)
        sys.exit(USAGE if isinstance(error, UsageError | StoreUrlError) else BAD_INPUT)


if __name__ == "__main__":
    main()
