"""Extension that adds the command `diagnose`."""

from collections.abc import Iterable

from hierogram.daemon.extensions import LEARN, Command, Extension


def _commands() -> "Iterable[Command]":
    from hierogram.tools.diagnosis.commands import diagnose

    yield Command(LEARN, diagnose, "hierogram diagnose --pairs 2000 --plot chains.png")


EXTENSION = Extension(commands=_commands)
