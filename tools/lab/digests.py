"""Does a change leave everything as it was? Digests of what stores, exports, commands, HTTP and pages give.

    python -m hierogram.tools.lab.digests -o before.json
    python -m hierogram.tools.lab.digests --compare before.json

Everything is asked through doors that users have: commands and HTTP. Corpora are made from fixed seeds. Times, process
ids, paths and random tokens are left out. With `--compare`, what differs is printed, and the exit code is 1.
"""

import hashlib
import json
import os
import random
import re
import sqlite3
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from hierogram.tools.lab.measures.results import run_command, serving, temporary_folder

_TIMES = re.compile(
    r"(_at|^at|seconds.*|.*_seconds|age|since|until|day|moment|next_run|uptime|heartbeat|mtime|pid|process|host|token"
    r"|position_age|path|url|file|folder|store|memory.*|wal.*|rss.*)$"
)
"""Names of columns and of keys whose values differ from run to run."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?|\d{8}T\d{6}Z|[\d.,]+ (s|seconds|ms)\b|127\.0\.0\.1:\d+")
_PATIENCE = 300.0
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HIEROGRAM_STORE")}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _plain(value: Any, folder: Path) -> Any:
    """Return a JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {name: _plain(part, folder) for name, part in value.items() if not _TIMES.search(name)}
    if isinstance(value, list):
        return [_plain(part, folder) for part in value]
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            return _plain(json.loads(value), folder)
    return _STAMP.sub("", value.replace(str(folder), "")) if isinstance(value, str) else value


class Digests:
    """Digests by name; all commands run in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, str] = {}

    def run(self, *arguments: str) -> bytes:
        """Run a command; returns what it prints. Raises `RuntimeError` where it fails."""
        return run_command(*arguments, folder=self.folder, environment=_ENVIRONMENT).encode()

    def text(self, name: str, content: bytes) -> None:
        """Note the digest of an output."""
        text = _STAMP.sub("", content.decode("utf-8", "replace")).replace(str(self.folder), "")
        self.found[name] = _digest(text.encode())

    def document(self, name: str, content: bytes) -> None:
        """Note the digest of a JSON document, or of JSON lines."""
        try:
            values = [json.loads(content)]
        except ValueError:
            values = [json.loads(line) for line in content.splitlines()]
        self.found[name] = _digest(json.dumps(_plain(values, self.folder), sort_keys=True).encode())

    def store(self, name: str, path: Path) -> None:
        """Note the digest of each table of a SQLite store, whatever the order of its rows."""
        connection = sqlite3.connect(path)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in sorted(tables):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = ", ".join(f'"{column}"' for column in columns if not _TIMES.search(column))
            if kept and table not in ("alembic_version", "claims", "sqlite_stat1"):
                found = connection.execute(f"SELECT {kept} FROM {table}")
                rows = sorted(repr([_plain(value, self.folder) for value in row]) for row in found)
                self.found[f"{name}: {table}"] = _digest("\n".join(rows).encode())
        connection.close()


def _words(random_: random.Random, language: str, size: int) -> list[str]:
    return [f"{language}{int(random_.paretovariate(0.7)) % 300}" for _ in range(size)]


def _write_corpora(folder: Path) -> None:
    random_ = random.Random(5)
    linked, source, target = [], [], []
    for _ in range(600):
        one = _words(random_, "f", random_.randint(1, 12))
        two = [word.replace("f", "e") for word in one]
        if len(two) > 3 and random_.random() < 0.4:
            two[0], two[1] = two[1], two[0]
        two = two[: max(1, len(two) - random_.randint(0, 1))]
        same = [(i, j) for i, a in enumerate(one) for j, b in enumerate(two) if a[1:] == b[1:]]
        links = [(i, j) for i, j in same if abs(i - j) < 3]
        linked.append(f"{' '.join(one)} ||| {' '.join(two)} ||| {' '.join(f'{i}-{j}' for i, j in links)}\n")
        source.append(" ".join(one) + "\n")
        target.append(" ".join(two) + "\n")
    (folder / "linked.txt").write_text("".join(linked[:400]) + "no bars\n")
    (folder / "c.f").write_text("".join(source[200:]))
    (folder / "c.e").write_text("".join(target[200:]))
    (folder / "dev.f").write_text("".join(source[:30]))
    (folder / "dev.e").write_text("".join(target[:30]))
    (folder / "short.f").write_text("".join(s for s in source if s.count(" ") < 6))
    (folder / "short.e").write_text("".join(t for s, t in zip(source, target, strict=True) if s.count(" ") < 6))
    (folder / "t.mrg").write_text("".join(_tree(random_, 3) + "\n" for _ in range(150)))
    (folder / "t.txt").write_text("w0 w1 w2\nw1 w1\nw0 w3 w1 w0\n")


def _tree(random_: random.Random, depth: int) -> str:
    label = random_.choice(("S", "NP", "VP"))
    if depth == 0 or random_.random() < 0.2:
        return f"({label} w{int(random_.paretovariate(0.8)) % 30})"
    return f"({label} {' '.join(_tree(random_, depth - 1) for _ in range(random_.randint(1, 3)))})"


_STORES = {
    "linked": (["--seed", "3"], ["linked.txt"], "6"),
    "paper": (["--seed", "3", "--schedule", "paper"], ["linked.txt"], "6"),
    "unaligned": (["--seed", "4"], ["c.f", "c.e"], "4"),
    "trees": (["--kind", "trees", "--annealing", "10"], ["--trees", "t.mrg"], "12"),
    "itg": (["--kind", "itg"], ["short.f", "short.e"], "4"),
}
_FORMATS = ("cdec", "moses", "joshua", "thrax", "jsonl", "tsv", "parquet", "glossary", "lexicon")


def _commands(digests: Digests) -> None:
    for name, (settings, inputs, sweeps) in _STORES.items():
        store = ("--store", f"{name}.db")
        digests.run(*store, "init", *settings)
        digests.run(*store, "ingest", *inputs)
        digests.run(*store, "learn", "--sweeps", sweeps, "--threads", "2")
        digests.store(f"store {name}", digests.folder / f"{name}.db")
        digests.document(f"status {name}", digests.run(*store, "status", "--json"))
        digests.text(f"verify {name}", digests.run(*store, "verify"))
    store = ("--store", "linked.db")
    for format in _FORMATS:
        out = digests.folder / f"out.{format}"
        try:
            digests.run(*store, "export", "-o", out.name, "--format", format)
        except RuntimeError as error:
            # A format that the command does not know is a difference, too.
            digests.found[f"export {format}"] = _digest(_STAMP.sub("", str(error)).encode())
        else:
            digests.found[f"export {format}"] = _digest(out.read_bytes())
    digests.run("lm", "c.e", "-o", "c.lm", "--order", "3")
    digests.found["language model"] = _digest((digests.folder / "c.lm").read_bytes())
    for name, arguments in {
        "rules": (*store, "rules", "--limit", "50", "--json"),
        "evidence": (*store, "evidence", "f1 f2 f3", "--json"),
        "terms": (*store, "terms", "--top", "20"),
        "score": (*store, "score", "--pair", "1", "--pair", "2", "--json"),
        "align": ("align", "c.f", "c.e", "--sweeps", "20", "--score"),
        "translate": ("translate", "out.cdec", "dev.f", "--lm", "c.lm"),
        "translate a store": ("translate", "linked.db", "dev.f"),
        "parse": ("--store", "trees.db", "parse", "t.txt"),
    }.items():
        digests.text(name, digests.run(*arguments))


_PAGES = (
    "/index.json", "/search.json?q=f1", "/search.json?q=f1+f2", "/word.json?side=source&token=f1", "/pairs/1.json",
    "/rule.json?source=f1&target=e1", "/rule/pairs.json?source=f1&target=e1", "/now.json", "/search?q=f1", "/pairs/1",
)  # fmt: skip
_ROUTES = (
    "/v1/status", "/v1/rules?source=f1", "/v1/rules?containing=f1&limit=5", "/v1/pairs/1", "/v1/pairs/1/links",
    "/v1/events", "/openapi.json",
)  # fmt: skip
_SAMPLES_NOTHING = '[http]\nport = 0\n[sampling]\nidle_share = 0.0\n[log]\nformat = "json"\n'
_POSTS = {
    "/v1/translate": {"text": "f1 f2 f3"},
    "/v1/align": {"source": "f1 f2 f3", "target": "e1 e2 e3"},
    "/v1/evidence": {"text": "f1 f2 f3"},
}


def _note_answer(digests: Digests, name: str, request: urllib.request.Request) -> None:
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            kind, content = answer.headers.get_content_type(), answer.read()
    except urllib.error.HTTPError as error:
        kind, content = error.headers.get_content_type(), error.read()
        name = f"{name} -> {error.code}"
    (digests.document if kind.endswith("json") else digests.text)(name, content)


def main(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File of digests to write, JSON.")] = None,
    compare: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Digests to compare with.")] = None,
) -> None:
    """Make stores, ask everything of them, and print or compare the digests of the answers."""
    with temporary_folder() as folder:
        digests = Digests(folder)
        _write_corpora(digests.folder)
        _commands(digests)
        with serving(
            _SAMPLES_NOTHING, "--store", "linked.db", folder=digests.folder, environment=_ENVIRONMENT
        ) as address:
            for place in (*_PAGES, *_ROUTES):
                _note_answer(digests, f"GET {place}", urllib.request.Request(address + place))
            for place, body in _POSTS.items():
                kind = {"Content-Type": "application/json"}
                request = urllib.request.Request(address + place, json.dumps(body).encode(), kind)
                _note_answer(digests, f"POST {place}", request)
    text = json.dumps(digests.found, indent=1, sort_keys=True) + "\n"
    if output is not None:
        output.write_text(text)
    if compare is None:
        typer.echo(text, nl=False)
        return
    before = json.loads(compare.read_text())
    names = sorted(before.keys() | digests.found.keys())
    differing = [name for name in names if before.get(name) != digests.found.get(name)]
    for name in differing:
        typer.echo(f"{name}: {before.get(name, 'absent')} -> {digests.found.get(name, 'absent')}")
    typer.echo(f"{len(names) - len(differing)} of {len(names)} as before")
    if differing:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
