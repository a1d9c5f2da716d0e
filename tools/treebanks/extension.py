"""Extension that adds the command `parse`."""

from collections.abc import Iterable

from hierogram.daemon.extensions import TRANSLATE, Command, Extension


def _commands() -> "Iterable[Command]":
    from hierogram.tools.treebanks.commands import parse

    yield Command(TRANSLATE, parse, "hierogram parse grammar.txt news.en -o news.trees")


EXTENSION = Extension(commands=_commands)
