"""Commands that learn: learn, align, links."""

import csv
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from hierogram.daemon.cli.common import (
    advise_tokenization,
    files_or_input,
    interruptible,
    named_store,
    open_chosen_store,
    plural,
    print_json,
    print_note,
)
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.progress import Progress, progress
from hierogram.daemon.serving.signals import DUPLICATE_SECONDS, STOP_SIGNALS
from hierogram.daemon.shared_options import OUTPUT, STANDARD_STREAM, SWEEPS, AsJson, ProcessThreads, Tokenize, Tokenized
from hierogram.daemon.workers.options import WorkerOptions
from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.learning.alignment.incremental import AlignReport
    from hierogram.daemon.learning.learner import LearnProgress
    from hierogram.daemon.learning.learning import LearnReport
    from hierogram.daemon.library.learning import Learning
    from hierogram.samplers.grammar.kinds import GrammarKind


@with_options
def learn(
    context: typer.Context,
    worker_options: WorkerOptions,
    sweeps: Annotated[int | None, SWEEPS] = None,
    threads: ProcessThreads = None,
    as_json: AsJson = False,
) -> None:
    """Learn the grammar: burn in new pairs, then sample all pairs.

    Pairs without an alignment are aligned first. An interrupted run is continued if it had the same --sweeps, or if
    --sweeps is not given. SIGTERM and Ctrl-C stop the run after the current sweep and its commit.

    With --workers, processes on this machine or on a cluster sample the pairs (requires the extra `cluster`). The
    result does not depend on the number of workers or on lost workers.
    """
    workers, blocks = worker_options.parsed()
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.daemon.workers.chain import start_workers

    with (
        open_chosen_store(context) as opened,
        # Start the workers before installing signal handlers, because Ray installs its own.
        start_workers(opened.store, workers, threads or 1) as make_chain,
    ):
        options = LearnOptions(threads, blocks=blocks, make_chain=make_chain)
        learning, kind = opened.learn(sweeps, options=options), opened.grammar_kind()
        with interruptible("committed alignments are kept: run the command again to continue"):
            aligned = align_pending(learning)
        if not as_json:
            print_aligned(aligned)
        run = learning.resumed
        if run is not None and run.is_complete:
            advice = "showing its result; run the command again to start a new run"
            print_note(f"the interrupted run had completed all of its {plural(run.sweeps, 'sweep')}: {advice}")
        elif run is not None:
            print_note(f"continuing an interrupted run: {run.sweeps_done:,} of {plural(run.sweeps, 'sweep')} done")
        with StopSignals() as stop:
            with progress("learn", kind.plural) as bar:
                learned = learning.sample(learning_progress(bar), lambda: stop.number > 0)
            if learned.finished:
                stop.ignore()
                if as_json:
                    print_json({**asdict(learned), "aligned": asdict(aligned)})
                else:
                    print_learned(learned, kind)
                sys.stdout.flush()
                learning.finish()
    if not learned.finished:
        print_note("hierogram: interrupted, completed sweeps are kept: run the command again to continue")
        # Shells use the same exit codes: 130 after SIGINT, 143 after SIGTERM.
        raise typer.Exit(128 + stop.number)


def align_pending(learning: "Learning") -> "AlignReport":
    """Run the alignment of a learning run, with a progress bar."""
    with progress("align", "pairs") as bar:
        return learning.align(bar.update)


def print_aligned(report: "AlignReport") -> None:
    """Print the numbers of aligned and re-aligned pairs and the time, or nothing if no pair was aligned."""
    if report.pairs:
        realigned = f", {plural(report.realigned, 'pair')} re-aligned" if report.realigned else ""
        print(f"{plural(report.pairs, 'pair')} aligned in {report.seconds:.1f} s{realigned}")


def learning_progress(bar: Progress) -> Callable[["LearnProgress"], None]:
    """Return a callback for `LearnOptions.report` that shows the progress on a bar."""

    def report(step: "LearnProgress") -> None:
        likelihood = "" if step.log_likelihood is None else f", log-likelihood {step.log_likelihood:,.0f}"
        note = f"sweep {step.sweep}, stage {step.stage}{likelihood}"
        bar.update(step.done, step.total, step.done, note, "pair sweeps")

    return report


def print_learned(report: "LearnReport", kind: "GrammarKind") -> None:
    """Print the speed of a run, and log-likelihood, rules in use and uses of rules before and after it."""
    rate = report.pair_sweeps / max(report.sampling_seconds, 1e-9)
    parts = f" ({report.burn_in:,} of burn-in, {report.sweeps - report.burn_in:,} after it)" if report.burn_in else ""
    time = f"{report.seconds:.1f} s ({rate:,.0f} {kind.plural}/s while sampling)"
    print(f"{plural(report.pairs, kind.singular)}, {plural(report.sweeps, 'sweep')}{parts} in {time}")
    print(f"  log-likelihood {report.log_likelihood_before:>14,.0f} → {report.log_likelihood_after:,.0f}")
    print(f"  rules in use   {report.rules_in_use_before:>14,} → {report.rules_in_use_after:,}")
    print(f"  uses of rules  {report.tokens_before:>14,} → {report.tokens_after:,}")


class StopSignals:
    """Context manager that records SIGINT or SIGTERM as `number`, else 0. A second one ends the process."""

    def __init__(self) -> None:
        self.number = 0
        self._received_at = 0.0

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, self._record) for number in STOP_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore signals until the process ends, because a process killed by a signal reports failure."""
        self._handlers.clear()
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if not self.number:
            self.number, self._received_at = number, time.monotonic()
            print_note("hierogram: finishing and committing the current sweep; interrupt again to stop at once")
        elif time.monotonic() - self._received_at > DUPLICATE_SECONDS:
            # Use the default handler, which ends the process. The database rolls back the uncommitted sweep.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


_ALIGN_FILES = Option(
    "Source and target sentences in two files, line by line; or one file of `source ||| target` lines, tab-separated "
    "lines or JSON lines. Compressed files are decompressed. Default: standard input (-).",
    metavar="[SRC TGT | FILE]", positional=True,
)  # fmt: skip


@with_options
def align(
    context: typer.Context,
    request: AlignOptions,
    files: Annotated[list[str] | None, _ALIGN_FILES] = None,
    output: Annotated[str, OUTPUT] = STANDARD_STREAM,
    tokenize: Tokenize = None,
    tokenized: Tokenized = False,
    score: Annotated[bool, Option("Write ` ||| ` and each link's posterior probability after the links.")] = False,
) -> None:
    """Align the words of sentence pairs. Writes Pharaoh lines such as `0-0 1-2`, one per pair.

    Text is split at spaces unless --tokenize or the store sets a tokenizer. Words in links are numbered from 0, in
    NAACL lines from 1. A pair that cannot be aligned, such as a pair with an empty side, gets an empty line. With
    --store, the aligner starts from the counts of the store and does not change the store. If --output ends in .jsonl
    or .naacl, JSON lines or NAACL lines are written, with the probability of each link. If both inputs are .tsv files
    of tokens and --output ends in .json, the alignment is written as Scripture Burrito.
    """
    from hierogram.daemon.library.aligning import align as align_texts
    from hierogram.daemon.library.aligning import resolve_text_pipeline
    from hierogram.daemon.library.store import open
    from hierogram.daemon.text.burrito import common_verses, make_burrito, read_token_text
    from hierogram.daemon.text.lines import write_lines
    from hierogram.daemon.text.pair_files import read_pairs
    from hierogram.daemon.text.pipeline import two_languages
    from hierogram.samplers.alignment.bitext import MAX_WORDS

    files = files_or_input(files, "pairs")
    with interruptible("no file was written"), ExitStack() as stack:
        url = named_store(context)
        store = None if url is None else stack.enter_context(open(url))
        languages = two_languages(tokenize, "--tokenize") if tokenize is not None else None
        pipeline = resolve_text_pipeline(store, languages, tokenized)
        token_texts = None
        if output.endswith(".json") and len(files) == 2 and all(file.endswith(".tsv") for file in files):
            token_texts = read_token_text(files[0]), read_token_text(files[1])
            verses = common_verses(*token_texts)
            sources, targets = ([" ".join(text.tokens[verse]) for verse in verses] for text in token_texts)
            # Do not tokenize by default, because links in Scripture Burrito refer to the tokens of the files.
            tokenized = tokenized or tokenize is None
        else:
            sources, targets = read_pairs(files)
        for side, name, lines in ((pipeline.source, files[0], sources), (pipeline.target, files[-1], targets)):
            advise_tokenization(side, name, lines, tokenized)
        # Keep no other reference to the sentences, so that they are freed once the aligner has read them.
        unread = iter(sources), iter(targets)
        del sources, targets, lines
        if store is not None and not store.store.aligner_counts(((), ()), ((), ())).jumps:
            print_note(f"{store.url}: the aligner has not seen any pairs yet: aligning without the store")
        with progress("align", "sweeps") as bar:
            aligned = align_texts(
                *unread, priors=store, tokenize=languages, tokenized=tokenized, options=request, progress=bar.update
            )
        for pair, word_count in sorted(aligned.skipped.items()):
            print_note(f"pair {pair + 1:,}: not aligned: {word_count:,} words, the limit is {MAX_WORDS:,}")
        if token_texts is not None:
            links = ({(i, j): p for i, j, p in pair} for pair in aligned)
            document = make_burrito(*token_texts, dict(zip(verses, links, strict=True)))
            write_lines(Path(output), [json.dumps(document, ensure_ascii=False)])
        elif output == STANDARD_STREAM:
            sys.stdout.writelines(line + "\n" for line in aligned.lines(score))
            return
        else:
            suffix = Path(output.removesuffix(".gz").removesuffix(".zst")).suffix
            formats = {".jsonl": aligned.json_lines, ".naacl": aligned.naacl_lines}
            write_lines(Path(output), formats[suffix]() if suffix in formats else aligned.lines(score))
    print_note(f"{output}: {plural(len(aligned), 'pair')}, {plural(len(aligned.links.source), 'link')}")


_CSV_COLUMNS = ("pair", "source", "target", "verdict")
_IMPORT_HELP = (
    "Read corrections of many pairs from a CSV file with the columns pair, source, target, verdict "
    "(fixed or forbidden)."
)


@with_options
def links(
    context: typer.Context,
    pair: Annotated[int | None, Option("Id of the pair.", min=1, metavar="[PAIR]", positional=True)] = None,
    fixed: Annotated[str, Option("Links that must be present, such as 0-0 1-2.", metavar="LINKS")] = "",
    forbidden: Annotated[str, Option("Links that must be absent.", metavar="LINKS")] = "",
    forget: Annotated[bool, Option("Remove all corrections of the pair's links.")] = False,
    file: Annotated[Path | None, typer.Option("--import", metavar="FILE", help=_IMPORT_HELP, dir_okay=False)] = None,
    origin: Annotated[
        str | None, Option("Author or origin of the corrections.", shown="command line, or the file", metavar="TEXT")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fix or forbid word links of one pair, or of many pairs with --import.

    Earlier corrections of these pairs are replaced. The pairs are re-aligned, and their derivations restart.
    Corrections hold until they are removed with --forget. A running daemon applies the corrections within seconds. If a
    line of the imported file is invalid, nothing is stored.
    """
    from hierogram.daemon.text.formats import parse_known_links
    from hierogram.daemon.text.rejections import RejectionError

    if [pair is None, not (fixed or forbidden), not forget, file is None].count(False) != (1 if file else 2):
        raise UsageError("expected PAIR with --fixed, --forbidden or both; or PAIR --forget; or --import FILE")
    if file is not None:
        corrections, corrections_origin = _read_corrections(file), origin or str(file)
    else:
        assert pair is not None
        try:
            pair_links = KnownLinks(parse_known_links(fixed, "--fixed"), parse_known_links(forbidden, "--forbidden"))
        except RejectionError as error:
            raise UsageError(str(error)) from error
        corrections, corrections_origin = {pair: pair_links}, origin or "command line"
    consequence = "some corrections may not be stored or applied: run the command again to continue"
    with interruptible(consequence), open_chosen_store(context) as opened:
        holder = opened.set_links(corrections, corrections_origin)
    link_count = sum(len(pair_links.fixed) + len(pair_links.forbidden) for pair_links in corrections.values())
    summary = f"{plural(link_count, 'link')} of {plural(len(corrections), 'pair')}"
    if as_json:
        print_json({"pairs": len(corrections), "links": link_count, "applied": holder is None})
    elif holder:
        print(f"{summary}: will be re-aligned by `{holder.command}` (process {holder.pid} on {holder.host})")
    else:
        print(f"{summary}: re-aligned")


def _read_corrections(file: Path) -> dict[int, KnownLinks]:
    corrections: dict[int, KnownLinks] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            if missing := [name for name in _CSV_COLUMNS if name not in (rows.fieldnames or ())]:
                raise InputError(f"{file}: the header lacks {', '.join(missing)}: expected {','.join(_CSV_COLUMNS)}")
            for row in rows:
                pair, link, verdict = _parse_correction(row, f"{file}, line {rows.line_num}")
                pair_links = corrections.get(pair, KnownLinks())
                corrections[pair] = pair_links._replace(**{verdict: getattr(pair_links, verdict) | {link}})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    if not corrections:
        raise InputError(f"{file}: no links found: expected lines such as 17,0,0,fixed")
    return corrections


def _parse_correction(row: Mapping[str, str | None], location: str) -> tuple[int, Link, str]:
    """Return pair id, link and verdict of a row. Raises `InputError`, which names the location."""
    numbers = []
    for name in _CSV_COLUMNS[:3]:
        text = (row[name] or "").strip()
        if not text.isdecimal() or len(text) > 18:
            raise InputError(f"{location}: {name} must be a number, got {text!r}")
        numbers.append(int(text))
    pair, source, target = numbers
    verdict = (row["verdict"] or "").strip()
    if verdict not in ("fixed", "forbidden"):
        raise InputError(f"{location}: verdict must be fixed or forbidden, got {verdict!r}")
    return pair, (source, target), verdict
