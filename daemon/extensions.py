"""Extensions of installed tools: commands, configuration sections, loops and routes.

A tool registers one `Extension` under the entry point group `hierogram.extensions`. Without extensions,
the daemon can still ingest, learn, answer SQL queries and export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.configuration import Configuration
    from hierogram.daemon.exports.options import ExportOptions
    from hierogram.daemon.learning.kinds.kind import LoadedBatch, State
    from hierogram.daemon.library.store import GrammarStore
    from hierogram.daemon.serving.service import Daemon
    from hierogram.daemon.serving.supervision import Loop
    from hierogram.daemon.web.pages.rendering import PageContext
    from hierogram.daemon.web.protocol.access import ProtocolApp
    from hierogram.daemon.web.protocol.context import Page, WebContext
    from hierogram.samplers.grammar.kinds import GrammarKind
    from hierogram.storage.store import Store

GROUP = "hierogram.extensions"

STORE, LEARN, INSPECT, TRANSLATE, SERVE = "Store", "Learn", "Inspect", "Translate", "Serve"
"""Groups of commands, in the order of `hierogram --help`."""


@dataclass(frozen=True)
class Command:
    """Command with its group and example in `hierogram --help`."""

    group: str
    function: Callable[..., Any]
    example: str


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Additions of one tool to the daemon. Each function imports its modules when it is called."""

    commands: Sequence[Command] = ()
    sections: Mapping[str, type[Any]] = field(default_factory=dict)
    """Configuration sections by name, as dataclasses of options."""
    check: Callable[[Configuration], None] = lambda _: None
    """Raises `UsageError` if a file in a section of the tool does not exist."""
    pack: Callable[[GrammarStore | str, Path, ExportOptions], int] | None = None
    """Packs the grammar of a store or file (`export --format packed`). Returns the number of rules."""
    routes: Callable[[WebContext], Iterable[APIRouter]] = lambda _: ()
    """Returns routes of the HTTP API."""
    apps: Callable[[WebContext], Iterable[ProtocolApp]] = lambda _: ()
    """Returns applications for other protocols, such as MCP."""
    pages: Callable[[WebContext, PageContext], Iterable[Page]] = lambda *_: ()
    """Returns pages for browsers."""
    templates: str | None = None
    """Package with a folder `templates` of Jinja templates."""
    loops: Callable[[Daemon], Iterable[Loop]] = lambda _: ()
    """Returns loops that the daemon runs and supervises."""
    warm_up: Callable[[GrammarKind, LoadedBatch, State], None] = lambda *_: None
    """Compiles the kernels of requests on an example in memory, before the first request."""
    warm_up_loops: Callable[[Store], None] = lambda _: None
    """Compiles the kernels of loops on a small store with learned rules."""


@cache
def extensions() -> tuple[Extension, ...]:
    """Load the extensions of all installed tools, sorted by name."""
    return tuple(entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name))
