"""What scores add to the daemon: the section `[scores]`, a route, the loop that scores stored pairs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hierogram.daemon.extensions import Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.serving.service import Daemon
    from hierogram.daemon.serving.supervision import Loop
    from hierogram.daemon.web.context import WebContext


def _sections() -> "Mapping[str, type[Any]]":
    from hierogram.tools.scores.records import KeepOptions

    return {"scores": KeepOptions}


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.scores.routes import score_routes

    yield score_routes(context.service)


def _loops(daemon: "Daemon") -> "Iterable[Loop]":
    from hierogram.tools.scores.loop import ScoringLoop
    from hierogram.tools.scores.records import KeepOptions

    log = daemon.log.bind(loop="score").info
    yield ScoringLoop(daemon.store.store, lambda: daemon.configuration.section(KeepOptions), log)


EXTENSION = Extension(sections=_sections, routes=_routes, loops=_loops)
