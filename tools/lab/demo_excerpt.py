"""Run the demo and write the first printed rule of each kind into the README.

python -m hierogram.tools.lab.demo_excerpt README.md
"""

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

from hierogram.daemon.cli.main import app

_EXCERPT = re.compile(r"(?<=learns, and prints rules:\n\n```text\n).*?(?=```)", re.DOTALL)


def run_demo() -> str:
    """Run `hierogram demo` in a temporary folder and return the output."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        app(["demo"], standalone_mode=False)
    return printed.getvalue()


def excerpt(printed: str) -> str:
    """Return the first printed rule of each kind, below the name of the kind, from the output of the demo."""
    lines = []
    kind = ""
    for line in printed.split("Most used and most probable rules:\n")[1].split("\n\n")[0].splitlines():
        if not line.startswith("    "):
            kind = line
        elif kind:
            lines += [kind, line]
            kind = ""
    return "".join(f"{line}\n" for line in lines)


def current_excerpt(document: str) -> str:
    """Return the excerpt that the README contains."""
    match = _EXCERPT.search(document)
    assert match is not None
    return match.group()


def main() -> None:
    """Replace the excerpt in the file given on the command line."""
    path = Path(sys.argv[1])
    document = path.read_text(encoding="utf-8")
    path.write_text(document.replace(current_excerpt(document), excerpt(run_demo())), encoding="utf-8")


if __name__ == "__main__":
    main()
