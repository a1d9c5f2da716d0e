"""Extension that adds the evidence command and route."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hierogram.daemon.extensions import LOOK, Command, Extension

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.web.protocol.context import WebContext


def _commands() -> "Iterable[Command]":
    from hierogram.tools.evidence.commands import evidence

    yield Command(LOOK, evidence, "hierogram evidence 'la maison blanche est vide .' --format prompt")


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.evidence.routes import evidence_routes

    yield evidence_routes(context.service)


EXTENSION = Extension(commands=_commands, routes=_routes)
