"""Run the demo and write the first printed rule of each kind into the README.

python -m hierogram.tools.lab.demo_excerpt README.md
"""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hierogram.daemon.cli.main import app

_EXCERPT = re.compile(r"(?<=learns, and prints rules:\n\n```text\n).*?(?=```)", re.DOTALL)


def run_demo() -> str:
    """Return the output of `hierogram demo`, run in a temporary folder."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        app(["demo"], standalone_mode=False)
    return printed.getvalue()


def excerpt(printed: str) -> str:
    """Return the first rule of each kind, under the name of the kind."""
    return "".join(line + "\n" for line in _first_rules(printed))


def _first_rules(printed: str) -> Iterator[str]:
    kind = ""
    for line in printed.split("Most used and most probable rules:\n")[1].split("\n\n")[0].splitlines():
        if not line.startswith("    "):
            kind = line
        elif kind:
            yield from (kind, line)
            kind = ""


def shown(document: str) -> str:
    """Return the excerpt in the README."""
    match = _EXCERPT.search(document)
    assert match is not None
    return match.group()


def main() -> None:
    """Replace the excerpt in the file given on the command line."""
    path = Path(sys.argv[1])
    document = path.read_text(encoding="utf-8")
    path.write_text(document.replace(shown(document), excerpt(run_demo())), encoding="utf-8")


if __name__ == "__main__":
    main()
