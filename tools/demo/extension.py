"""Extension that adds the command `demo`."""

from collections.abc import Iterable

from hierogram.daemon.extensions import LEARN, Command, Extension


def _commands() -> "Iterable[Command]":
    from hierogram.tools.demo.commands import demo

    yield Command(LEARN, demo, "hierogram demo --align")


EXTENSION = Extension(commands=_commands)
