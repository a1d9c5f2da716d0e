"""The command line `hierogram`."""

import sys
from importlib.metadata import entry_points, version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from hierogram.daemon.commands import (
    aligning,
    corpora,
    demo,
    exports,
    grammar,
    mending,
    schedule,
    serving,
    stores,
    treebanks,
)
from hierogram.daemon.commands import occurrences as support
from hierogram.daemon.commands.common import BAD_INPUT, DEFAULT_STORE, USAGE, ChosenStore, was_given
from hierogram.daemon.commands.services import events, evidence, links, scores, terms, watching
from hierogram.daemon.commands.translation import evaluation, language_models, translating, tuning
from hierogram.daemon.exceptions import DaemonError, UsageError
from hierogram.daemon.memory import collect_seldom
from hierogram.samplers.exceptions import SamplerError
from hierogram.storage.exceptions import StoreError, StoreUrlError


class Commands(TyperGroup):
    """The commands; completion is installed for the shell that one is in, and for no other."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperGroup.parse_args`; nothing is done where more is said than that."""
        for flag in ("--install-completion", "--show-completion"):
            if flag in args and len(args) > 1:
                others = " ".join(arg for arg in args if arg != flag)
                raise UsageError(f"{flag} is for the shell that you are in, and takes no name or command: {others}")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="hierogram",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  hierogram ingest news.fr news.en news.align\n  hierogram learn\n  hierogram rules maison",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hierogram {version('hierogram')}")
        raise typer.Exit


@app.callback()
def choose_store(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            "--store",
            envvar="HIEROGRAM_STORE",
            metavar="URL",
            help="Store to work on: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or a path ending in .db.",
        ),
    ] = DEFAULT_STORE,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    """A grammar store that keeps learning: translation rules from word-aligned sentence pairs.

    Exit codes: 0 done, 1 a check found something, 2 wrong usage, 3 bad input or store, 130 interrupted.
    """
    context.obj = ChosenStore(store, was_given(context, "store"))


for command, example in (
    (stores.init, "hierogram --store sqlite:///news.db init --seed 7 --discount 0.4"),
    (corpora.ingest, "hierogram ingest --corpus news news.fr.gz news.en.gz news.align.gz"),
    (grammar.learn, "hierogram learn --sweeps 50"),
    (grammar.rules, "hierogram rules --containing maison blanche --limit 5"),
    (support.support, "hierogram support 'la maison ||| the house'"),
    (evidence.evidence, "hierogram evidence 'la maison blanche est vide .' --format prompt"),
    (exports.export, "hierogram export -o grammar.cdec.gz --format cdec --max-scope 2 --min-count 2"),
    (exports.diff, "hierogram diff grammars/news-20260101T030000Z grammars/latest"),
    (stores.status, "hierogram status --json"),
    (events.events, "hierogram events --after 120 --follow --json"),
    (watching.watch, "hierogram watch --every 5"),
    (grammar.diagnose, "hierogram diagnose --pairs 2000 --plot chains.png"),
    (scores.score, "hierogram score --below 0 --json > doubtful.jsonl"),
    (terms.terms, "hierogram terms --top 200 -o terms.tbx --languages fr,en"),
    (mending.verify, "hierogram verify || echo damaged"),
    (mending.repair, "hierogram repair --dry-run"),
    (mending.backup, "hierogram backup backups/monday.db"),
    (aligning.align, "hierogram align news.fr news.en --tokenize fr,en -o news.align"),
    (aligning.evaluate_alignment, "hierogram evaluate-alignment gold.talp news.align"),
    (language_models.lm, "hierogram lm news.en --tokenize en -o news.lm -o news.arpa.gz --order 3"),
    (tuning.tune, "hierogram tune grammar.cdec.gz dev.fr -r dev.en --lm news.lm -o weights.toml"),
    (evaluation.evaluate, "hierogram evaluate baseline.en averaged.en -r test.en"),
    (serving.serve, "hierogram serve --spool incoming"),
    (serving.browse, "hierogram browse hierogram-demo.db"),
    (translating.translate, "hierogram translate grammar.cdec.gz news.fr --lm news.lm -o news.en"),
    (translating.pack_grammar, "hierogram pack-grammar grammar.cdec.gz grammar.packed"),
    (serving.datasette, "hierogram datasette hierogram-demo.db -o datasette.json"),
    (treebanks.parse, "hierogram parse grammar.txt news.en -o news.trees"),
    (treebanks.evaluate_parse, "hierogram evaluate-parse gold.mrg news.trees"),
    (serving.withdraw, "hierogram withdraw --corpus news"),
    (demo.demo, "hierogram demo --data bible_alignments-0.4.2-py3-none-any.whl"),
):
    app.command(epilog=f"\b\nExample:\n  {example}")(command)

app.add_typer(schedule.app, name="schedule")
app.add_typer(links.app, name="links")

# Tools stand beside the daemon and may use all of it; they bring their commands themselves.
for entry in sorted(entry_points(group="hierogram.commands")):
    app.command(entry.name)(entry.load())


def _fail(error: Exception, code: int) -> NoReturn:
    print(f"hierogram: {error}", file=sys.stderr)
    sys.exit(code)


def main() -> None:
    """Run the command line; errors that a person can mend are one line on standard error."""
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows its code instead; it must not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (UsageError, StoreUrlError) as error:
        _fail(error, USAGE)
    except (DaemonError, StoreError, SamplerError) as error:
        _fail(error, BAD_INPUT)


if __name__ == "__main__":
    main()
