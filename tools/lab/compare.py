"""Command `compare` of the lab: sampled and heuristic grammars, as in Table 2 without BLEU."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import interruptible, plural, print_json, print_note, store_url
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL
from hierogram.storage.options import Option
from hierogram.storage.records.pairs import UNALIGNED

if TYPE_CHECKING:
    from hierogram.storage.store import Store
    from hierogram.tools.lab.comparison.comparing import Comparison

_HELD_OUT = 1_000
"""Approximate number of lines of FILES that are held out, but up to a tenth of all lines."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of the command."""

    keep: Annotated[Path | None, Option("Keep the store learned from FILES as FILE.db.", metavar="FILE.db")] = None
    max_scope: Annotated[int, Option("Omit rules with a scope above K.", min=0, metavar="K")] = 2
    sweeps: Annotated[int | None, Option("Sweeps after the burn-in.", min=0, shown="24")] = None
    threads: Annotated[int, Option("Threads; the result does not depend on them.", min=1)] = 2


@with_options
def compare(
    context: typer.Context,
    options: CompareOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...",
            help="A bitext in any format of `ingest`, which a new store learns; pairs without links are aligned. "
            "[default: the existing store]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare sampled grammars with Hiero's grammar: rules by scope, and coverage of held-out sentences.

    \b Example:
      python -m hierogram.tools.lab compare news.fr news.en news.align --keep news.db
      python -m hierogram.tools.lab compare --store news.db
    """  # noqa: D301 (\b is the marker of click for text that is not wrapped)
    if options.keep is not None and options.keep.exists():
        raise UsageError(f"{options.keep} already exists: name another file, or compare it with --store {options.keep}")
    if not files and (options.keep or options.sweeps is not None):
        raise UsageError("--keep and --sweeps require FILES")
    from hierogram.storage.store import open_store
    from hierogram.tools.lab.comparison.comparing import compare as measure

    with interruptible("no grammars were compared"), ExitStack() as stack:
        if files:
            opened, held_out = stack.enter_context(_learned(files, options))
        else:
            opened, held_out = stack.enter_context(open_store(store_url(context))), []
        bar = stack.enter_context(progress("compare", "pairs"))
        comparison = measure(
            opened,
            held_out,
            max_scope=options.max_scope,
            threads=options.threads,
            report=lambda work, done, total: bar.update(done, total, done, work, None if total else "rules"),
        )
        omitted = opened.count_pairs([UNALIGNED])
    if omitted:
        print_note(
            f"omitted {plural(omitted, 'pair')} without an alignment: run `hierogram --store {opened.url} learn`"
        )
    if as_json:
        print_json(asdict(comparison))
    else:
        _print_table(comparison)


@contextmanager
def _learned(files: list[str], options: CompareOptions) -> Iterator["tuple[Store, list[str]]"]:
    """Learn the files except held-out lines. Yields the store, and the source sides of the held-out lines."""
    from hierogram.daemon.cli.learning import align_pending, learning_progress
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.daemon.library.store import open
    from hierogram.daemon.text.pair_files import PairFiles
    from hierogram.tools.lab.comparison.comparing import HeldOutInput
    from hierogram.tools.lab.measures.results import temporary_folder

    with temporary_folder() as folder:
        path = options.keep or folder / "compare.db"
        with PairFiles(files) as counted:
            every = max(sum(len(fields.line_numbers) for fields in counted.line_chunks()) // _HELD_OUT, 10)
        with open(f"sqlite:///{path.absolute()}", create=True) as opened:
            with HeldOutInput(files, every) as source, progress("ingest", "lines") as bar:
                done = opened.add(source, progress=lambda now: bar.update(now.bytes_read, now.bytes_total, now.lines))
            if done.totals.rejected:
                rejected = plural(done.totals.rejected, "line")
                print_note(f"{rejected} of the bitext rejected: the store of --keep lists them in rejected_lines")
            learning = opened.learn(options.sweeps, options=LearnOptions(options.threads))
            aligned = align_pending(learning)
            if aligned.pairs:
                print_note(f"{plural(aligned.pairs, 'pair')} of the bitext without links: aligned with {DEFAULT_MODEL}")
            with progress("learn", "pairs") as bar:
                learning.sample(learning_progress(bar))
            learning.finish()
            yield opened.store, source.held_out


def _print_table(comparison: "Comparison") -> None:
    from hierogram.daemon.cli.common import print_table

    grams = len(comparison.grammars[0].covered)
    columns = ["grammar", *(f"scope {k}" for k in range(comparison.max_scope + 1)), "rules", "ratio to Hiero"]
    columns += [*(f"{n}-grams" for n in range(1, grams + 1))]
    rows = [
        [
            row.name,
            *(f"{number:,}" for number in row.rules_by_scope),
            f"{row.rules:,}",
            f"{100 * row.ratio:.1f} %",
            *(f"{100 * share:.1f} %" for share in row.covered),
        ]
        for row in comparison.grammars
    ]
    print_table(columns, rows, numeric=range(1, len(columns)))
    print()
    words = f"{comparison.source_words:,} source and {comparison.target_words:,} target words"
    print(f"{plural(comparison.pairs, 'pair')}, {words}; rules of scope {comparison.max_scope} or less")
    if grams:
        sentences = plural(comparison.held_out, "held-out sentence")
        print(f"n-grams: share of the n-grams of {sentences} that source sides cover")
