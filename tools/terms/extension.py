"""Extension that adds the command `terms`."""

from collections.abc import Iterable

from hierogram.daemon.extensions import LOOK, Command, Extension


def _commands() -> "Iterable[Command]":
    from hierogram.tools.terms.commands import terms

    yield Command(LOOK, terms, "hierogram terms --top 200 -o terms.tbx --languages fr,en")


EXTENSION = Extension(commands=_commands)
