"""Commands for word alignments: align, links."""

import csv
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    chosen_store,
    files_or_input,
    interruptible,
    named_store,
    note,
    note_text,
    plural,
    print_json,
)
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.learning.alignment.requests import Request
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import OUTPUT, AsJson, Tokenize, Tokenized
from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.text.burrito import TokenText

STANDARD_OUTPUT = "-"


@with_options
def align(
    context: typer.Context,
    request: Request,
    files: Annotated[
        list[str] | None,
        Option(
            "Source sentences, one a line, and their translations, line for line; or one file of "
            "`source ||| target` lines, of the same with tabs, or of JSON lines; compressed files are unpacked. "
            "Without a file, or with -, standard input.",
            metavar="[SRC TGT | FILE]",
            positional=True,
        ),
    ] = None,
    output: Annotated[str, OUTPUT] = STANDARD_OUTPUT,
    tokenize: Tokenize = None,
    tokenized: Tokenized = False,
    score: Annotated[bool, Option("Write ` ||| ` and each link's posterior probability after the links.")] = False,
) -> None:
    """Align the words of sentence pairs by sampling; Pharaoh lines `0-0 1-2`, line for line.

    Tokens are separated by spaces, where --tokenize or --store does not say what divides text into tokens. Links count
    tokens. A pair with an empty side gets an empty line. With --store the aligner's counts of that store are where it
    begins; nothing is written to it. Two .tsv into a .json are aligned as Scripture Burrito.
    """
    from hierogram.daemon.library.store import open
    from hierogram.daemon.library.texts import align as sample
    from hierogram.daemon.library.texts import texts_of
    from hierogram.daemon.text.burrito import burrito, common_verses
    from hierogram.daemon.text.lines import write_lines
    from hierogram.daemon.text.reading import read_pairs
    from hierogram.daemon.text.texts import two_languages
    from hierogram.samplers.alignment.bitext import MOST_WORDS

    files = files_or_input(files, "pairs")
    with interruptible("no file was written"), ExitStack() as stack:
        url = named_store(context)
        store = None if url is None else stack.enter_context(open(url))
        languages = two_languages(tokenize, "--tokenize") if tokenize is not None else None
        texts = texts_of(store, languages, tokenized)
        texts_of_tokens = _texts_of_tokens(files, output)
        if texts_of_tokens is not None:
            verses = common_verses(*texts_of_tokens)
            sources, targets = ([" ".join(text.tokens[verse]) for verse in verses] for text in texts_of_tokens)
            # Links are positions of the tokens in the files.
            tokenized = tokenized or tokenize is None
        else:
            sources, targets = read_pairs(files)
        for side, name, lines in ((texts.source, files[0], sources), (texts.target, files[-1], targets)):
            note_text(side, name, lines, tokenized)
        if store is not None and not store.store.aligner_counts(((), ()), ((), ())).jumps:
            note(f"{store.url}: its aligner has seen no pair yet: aligning without it")
        with progress("align", "sweeps") as shown:
            aligned = sample(
                sources, targets, priors=store, tokenize=languages, tokenized=tokenized, options=request,
                progress=lambda done, total: shown.update(done, total, done),
            )  # fmt: skip
        for pair, words in sorted(aligned.skipped.items()):
            note(f"pair {pair + 1:,}: {words:,} words, the limit is {MOST_WORDS:,}: it was not aligned")
        if texts_of_tokens is not None:
            found = ({(i, j) for i, j, _ in pair} for pair in aligned)
            made = burrito(*texts_of_tokens, dict(zip(verses, found, strict=True)), "hierogram")
            write_lines(Path(output), [json.dumps(made, ensure_ascii=False)])
        elif output == STANDARD_OUTPUT:
            sys.stdout.writelines(line + "\n" for line in aligned.lines(score))
            return
        else:
            write_lines(Path(output), aligned.lines(score))
    note(f"{output}: {plural(aligned.pairs, 'pair')}, {plural(len(aligned.links.source), 'link')}")


def _texts_of_tokens(files: list[str], output: str) -> "tuple[TokenText, TokenText] | None":
    """Return the token texts of two .tsv files if the output is a Scripture Burrito (.json), else None."""
    if not output.endswith(".json") or len(files) != 2 or not all(file.endswith(".tsv") for file in files):
        return None
    from hierogram.daemon.text.burrito import read_token_text

    return read_token_text(files[0]), read_token_text(files[1])


_COLUMNS = ("pair", "source", "target", "verdict")


@with_options
def links(
    context: typer.Context,
    pair: Annotated[int | None, Option("Number of the pair.", min=1, metavar="[PAIR]", positional=True)] = None,
    fixed: Annotated[str, Option("Links that there are, as 0-0 1-2.", metavar="LINKS")] = "",
    forbidden: Annotated[str, Option("Links that there are not.", metavar="LINKS")] = "",
    forget: Annotated[bool, Option("Take back all that was said of the pair's links.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Links of many pairs: CSV with the columns pair, source, target, verdict (fixed or forbidden).",
            dir_okay=False,
        ),
    ] = None,
    origin: Annotated[
        str | None, Option("Who or what says so.", shown="command line, or the file", metavar="TEXT")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fix and forbid links of pairs, in place of all that was said of their links before.

    The pair is aligned again, and its derivation begins again; alignments keep to the links until they are taken back.
    Where a daemon runs, it does it, within seconds. Where a line of a file is wrong, nothing is stored.
    """
    if [pair is None, not (fixed or forbidden), not forget, file is None].count(False) != (1 if file else 2):
        raise UsageError("name a PAIR and its links, with --fixed, --forbidden or both; or PAIR --forget; or --import")
    if file is not None:
        corrections, said_by = _read(file), origin or str(file)
    else:
        assert pair is not None
        known = KnownLinks(_links("--fixed", fixed), _links("--forbidden", forbidden))
        corrections, said_by = {pair: known}, origin or "command line"
    _set(context, corrections, said_by, as_json)


def _links(option: str, line: str) -> frozenset[Link]:
    links = []
    for word in line.split():
        source, _, target = word.partition("-")
        if not (source.isdecimal() and target.isdecimal() and len(word) < 20):
            raise UsageError(f"{option}: {word!r} is no link: write i-j, word numbers counted from 0")
        links.append((int(source), int(target)))
    return frozenset(links)


def _read(file: Path) -> dict[int, KnownLinks]:
    """Return the links of a CSV file by pair. Raises `InputError` if the file is unreadable, invalid or has no link."""
    found: dict[int, KnownLinks] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            if missing := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
                raise InputError(f"{file}: the first line does not name {', '.join(missing)}")
            for row in rows:
                numbers = []
                for name in _COLUMNS[:3]:
                    text = (row[name] or "").strip()
                    if not text.isdecimal() or len(text) > 18:
                        raise InputError(f"{file}: line {rows.line_num}: {name} {text!r} is no number")
                    numbers.append(int(text))
                pair, *link = numbers
                verdict = (row["verdict"] or "").strip()
                if verdict not in ("fixed", "forbidden"):
                    raise InputError(
                        f"{file}: line {rows.line_num}: the verdict {verdict!r} is neither fixed nor forbidden"
                    )
                known = found.get(pair, KnownLinks())
                found[pair] = known._replace(**{verdict: getattr(known, verdict) | {(link[0], link[1])}})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    if not found:
        raise InputError(f"{file}: it has no line with a link")
    return found


def _set(context: typer.Context, corrections: dict[int, KnownLinks], origin: str, as_json: bool) -> None:
    with interruptible("what was noted is kept; run the command again"), chosen_store(context) as opened:
        holder = opened.set_links(corrections, origin)
    number = sum(len(known.fixed) + len(known.forbidden) for known in corrections.values())
    said = f"{plural(number, 'link')} of {plural(len(corrections), 'pair')}"
    if as_json:
        print_json({"pairs": len(corrections), "links": number, "done": holder is None})
    elif holder:
        print(f"{said}: `{holder.command}` (process {holder.pid} on {holder.host}) aligns again")
    else:
        print(f"{said}: aligned again")
