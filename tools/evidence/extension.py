"""What evidence adds to the daemon: a route."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hierogram.daemon.extensions import Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.web.context import WebContext


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.evidence.routes import evidence_routes

    yield evidence_routes(context.service)


EXTENSION = Extension(routes=_routes)
