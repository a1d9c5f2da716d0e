"""Extension of scores: the section `[scores]`, a route, and the loop that scores stored pairs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hierogram.daemon.extensions import LOOK, Command, Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.serving.service import Daemon
    from hierogram.daemon.serving.supervision import Loop
    from hierogram.daemon.web.protocol.context import WebContext
    from hierogram.storage.store import Store


def _commands() -> "Iterable[Command]":
    from hierogram.tools.scores.commands import score

    yield Command(LOOK, score, "hierogram score --doubt 4 --json > doubtful.jsonl")


def _sections() -> "Mapping[str, type[Any]]":
    from hierogram.tools.scores.options import KeepOptions

    return {"scores": KeepOptions}


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.scores.routes import score_routes

    yield score_routes(context.service)


def _loops(daemon: "Daemon") -> "Iterable[Loop]":
    from hierogram.tools.scores.loop import ScoringLoop
    from hierogram.tools.scores.options import KeepOptions

    log = daemon.log.bind(loop="score").info
    yield ScoringLoop(daemon.store, lambda: daemon.configuration.section(KeepOptions), log)


def _warm_up_loops(store: "Store") -> None:
    import threading

    from hierogram.daemon.serving.supervision import Heartbeat
    from hierogram.tools.scores.loop import ScoringLoop
    from hierogram.tools.scores.options import KeepOptions

    stop = threading.Event()
    # The loop logs the end of its first round, which ends it here.
    ScoringLoop(store, lambda: KeepOptions(share=1.0), lambda *_, **__: stop.set()).run(stop, Heartbeat())


EXTENSION = Extension(
    commands=_commands, sections=_sections, routes=_routes, loops=_loops, warm_up_loops=_warm_up_loops
)
