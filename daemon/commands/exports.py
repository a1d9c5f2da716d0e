"""Commands about grammars as files: export, diff."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    interruptible,
    note,
    plural,
    say,
    say_json,
    say_table,
    store_url,
)
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import Progress, progress

if TYPE_CHECKING:
    from hierogram.daemon.exports.exporting import Report
    from hierogram.daemon.exports.options import ExportOptions

FORMAT_NAMES = ("cdec", "moses", "joshua", "thrax", "jsonl", "tsv", "parquet", "fragments", "pcfg")
COMPRESSIONS = ("auto", "zstd", "gzip", "none")
_FIRST, _SECOND, _THIRD = "What", "Chiang's (2007) constraints", "How"

FormatName = Annotated[str, typer.Option("--format", "-f", metavar="NAME", help=f"Format: {', '.join(FORMAT_NAMES)}.")]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Features to write, separated by commas, where the format leaves a choice: p_target_given_source, "
        "p_source_given_target, lex_target_given_source, lex_source_given_target, count, singleton, source_singleton, "
        "terminals_only, glue.",
        show_default="all",
    ),
]
CompressionName = Annotated[
    str,
    typer.Option(
        "--compression",
        metavar="NAME",
        help=f"{', '.join(COMPRESSIONS)}; auto goes by the file's name (.zst, .gz).",
    ),
]
Level = Annotated[int | None, typer.Option(min=1, max=22, help="Level of the compression.", show_default="3 or 6")]
LongDistance = Annotated[bool, typer.Option("--long-distance", help="zstd: look for repeats up to 128 MiB back.")]
CompressionThreads = Annotated[
    int, typer.Option("--compression-threads", min=0, max=256, help="zstd: threads beside the writing one.")
]
Sampled = Annotated[bool, typer.Option("--sampled", help="Counts averaged over the kept samples.")]
CorpusName = Annotated[
    str | None, typer.Option("--corpus", metavar="NAME", help="Only what this corpus's pairs use, counted anew.")
]
MinCount = Annotated[float, typer.Option(min=0, help="Leave out rules with a lower count.")]
MaxScope = Annotated[int, typer.Option(min=0, help="Leave out rules that parse slower than O(n^K).", metavar="K")]
Hiero = Annotated[bool, typer.Option("--hiero", help="The next five as in Chiang (2007): 2, yes, 5, yes, 10.")]
MaxNonterminals = Annotated[int | None, typer.Option(min=0, help="Nonterminals on a side.")]
NoAdjacent = Annotated[bool, typer.Option("--no-adjacent", help="No source nonterminals side by side.")]
MaxSourceSymbols = Annotated[int | None, typer.Option(min=1, help="Words and nonterminals of the source side.")]
Aligned = Annotated[bool, typer.Option("--aligned", help="At least one aligned pair of words in the rule.")]
MaxSpan = Annotated[
    int | None, typer.Option(min=1, help="Words that a rule's phrase spans, as far as its sides show it.")
]
FilterFor = Annotated[
    Path | None,
    typer.Option("--filter-for", metavar="FILE", help="Only rules that can match a sentence of this test set."),
]
PerSource = Annotated[
    int | None, typer.Option(min=1, help="Only the best N rules of a source side, by count.", metavar="N")
]
Marginals = Annotated[
    str, typer.Option(metavar="WHEN", help="Probabilities among all rules (before filters) or those left (after).")
]


Model = TypeVar("Model", bound="ExportOptions")


def checked(model: type[Model], *, features: str | None, **given: Any) -> Model:
    """The model of what a command was given; raises `UsageError` where it does not go together."""
    from pydantic import ValidationError

    try:
        return model(features=None if features is None else tuple(features.split(",")), **given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"--{place.replace('_', '-')}: {message}" if place else message) from error


def telling(shown: Progress) -> "Report":
    """Tells a progress of an export's."""
    doing = {"read": "reading", "align": "aligning", "write": "writing"}
    return lambda what, done, total: shown.update(done, total, done, doing[what])


def export(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write; a manifest goes to FILE.json.")
    ] = Path("grammar.txt.zst"),
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Instead of a file: a new version in FOLDER, and `latest` to it."),
    ] = None,
    name: Annotated[str, typer.Option(help="With --to: name of the versions.")] = "grammar",
    keep: Annotated[int | None, typer.Option(min=1, help="With --to: versions to keep.", show_default="all")] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            "--sentences",
            metavar="FILE",
            help="Instead of a file: with --to, a cdec grammar for each sentence of FILE, in a folder.",
        ),
    ] = None,
    format: FormatName = "cdec",
    features: Features = None,
    compression: CompressionName = "auto",
    level: Level = None,
    long_distance: LongDistance = False,
    compression_threads: CompressionThreads = 0,
    sampled: Sampled = False,
    corpus: CorpusName = None,
    min_count: MinCount = 0,
    max_scope: MaxScope = 2,
    hiero: Hiero = False,
    max_nonterminals: MaxNonterminals = None,
    no_adjacent: NoAdjacent = False,
    max_source_symbols: MaxSourceSymbols = None,
    aligned: Aligned = False,
    max_span: MaxSpan = None,
    filter_for: FilterFor = None,
    per_source: PerSource = None,
    marginals: Marginals = "before",
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Write the grammar as a file that decoders or analysts load, with a manifest beside it."""
    from hierogram.daemon.exports.options import ExportOptions

    options = checked(
        ExportOptions,
        format=format,
        features=features,
        compression=compression,
        level=level,
        long_distance=long_distance,
        compression_threads=compression_threads,
        sampled=sampled,
        corpus=corpus,
        min_count=min_count,
        max_scope=max_scope,
        hiero=hiero,
        max_nonterminals=max_nonterminals,
        no_adjacent=no_adjacent,
        max_source_symbols=max_source_symbols,
        aligned=aligned,
        max_span=max_span,
        filter_for=sentences or filter_for,
        per_source=per_source,
        marginals=marginals,
    )
    if sentences is not None and (to is None or format != "cdec"):
        raise UsageError("--sentences writes a folder of cdec grammars: give --to FOLDER, and no other format")
    from hierogram.daemon.exports.exporting import export as write
    from hierogram.daemon.exports.exporting import publish
    from hierogram.daemon.exports.manifest import manifest_path
    from hierogram.storage.store import open_store

    with (
        interruptible("no file was written"),
        open_store(store_url(context, store)) as opened,
        progress("export", "rules") as shown,
    ):
        if to is None:
            manifest = write(opened, output, options, telling(shown))
            place, beside = output, manifest_path(output)
        else:
            made = publish(
                opened, to, name, options, keep=keep, report=telling(shown), by_sentence=sentences is not None
            )
            manifest = made.manifest
            place, beside = made.folder / manifest.file, made.folder / "manifest.json"
    if as_json:
        say_json(asdict(manifest) | {"path": str(place)})
        return
    say(f"{place}: {plural(manifest.rules, 'rule')}, {plural(manifest.bytes, 'byte')}, sha256 {manifest.sha256}")
    for left in manifest.filters:
        say(f"  {left.filter}: {left.before:,} → {left.after:,}")
    for other in manifest.others[:5]:
        say(f"{place.with_name(other.name)}: beside it")
    say(f"{beside}: its manifest")


def diff(
    context: typer.Context,
    before: Annotated[Path, typer.Argument(metavar="A", help="Export, or folder of a version.", exists=True)],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other one, of the same format.", exists=True)],
    limit: Annotated[int, typer.Option(min=0, help="Rules of each kind to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare two exports: rules added, removed, and most changed. Exit code 1 where they differ."""
    from hierogram.daemon.exports.difference import compare

    with interruptible("nothing was compared"):
        found = compare(before, after, limit)
    if as_json:
        say_json(asdict(found))
    else:
        say(
            f"{plural(found.same, 'rule')} as before, {found.changed:,} changed, {found.added:,} added, "
            f"{found.removed:,} removed"
        )
        for title, rules in (
            ("added", found.most_added),
            ("removed", found.most_removed),
            ("changed", found.most_changed),
        ):
            if rules:
                note(f"{title}, those with the highest counts first" if title != "changed" else "changed most")
                say_table(
                    ("before", "after", "source", "target"),
                    [(_shown(rule.before), _shown(rule.after), rule.source, rule.target) for rule in rules],
                    numeric=(0, 1),
                )
    if found.changed or found.added or found.removed:
        raise typer.Exit(1)


def _shown(count: float | None) -> str:
    return "" if count is None else f"{count:g}"
