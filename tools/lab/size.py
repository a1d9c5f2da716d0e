"""Count the modules, functions, classes and lines of the product, its commands and options, and its documents' words.

python -m hierogram.tools.lab.size
python -m hierogram.tools.lab.size daemon/learning storage
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("samplers", "storage", "daemon", "tools")
OPENINGS = ("What", "How", "Whether")
"""Words with which a docstring should not begin: it begins with a verb."""
_EQUATION = re.compile(r"^\s*```.*?^\s*```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def modules(folders: list[str]) -> Iterator[Path]:
    """Yield the modules below `folders`, but for packages' `__init__.py`."""
    for folder in folders:
        place = ROOT / folder
        found = [place] if place.is_file() else sorted(place.rglob("*.py"))
        yield from (path for path in found if path.name != "__init__.py")


def size_of(folders: list[str]) -> dict[str, int]:
    """Count modules, functions (methods among them), classes, lines, and docstrings that begin with no verb."""
    counts: Counter[str] = Counter(modules=0, functions=0, classes=0, lines=0)
    for path in modules(folders):
        text = path.read_text(encoding="utf-8")
        counts["modules"] += 1
        counts["lines"] += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["functions"] += 1
            elif isinstance(node, ast.ClassDef):
                counts["classes"] += 1
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                opening = (ast.get_docstring(node) or " ").split(" ")[0]
                if opening in OPENINGS:
                    counts[f"docstrings that begin with {opening}"] += 1
    return dict(counts)


def words_of_documents() -> dict[str, int]:
    """Count the words of README.md and of docs/, those without code and equations."""
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    texts = {
        "words of README.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        "words of docs": "\n".join(pages),
        "words of docs without equations and code": "\n".join(_EQUATION.sub(" ", page) for page in pages),
    }
    # What holds no letter and no digit is no word: bars of tables, fences, dashes.
    return {name: sum(any(map(str.isalnum, word)) for word in text.split()) for name, text in texts.items()}


def commands_and_options() -> dict[str, int]:
    """Count the commands of `hierogram` and their options; one that all of several commands share, `--store`, once."""
    import typer

    from hierogram.daemon.cli.main import app

    top = typer.main.get_command(app)
    options, commands, waiting = {("", name) for name in _options(top)}, 0, [top]
    while waiting:
        command = waiting.pop()
        if children := list(getattr(command, "commands", {}).values()):
            waiting += children
        else:
            commands += 1
            options |= {(str(command.name), name) for name in _options(command) if name != "--store"}
    return {"commands": commands, "options": len(options)}


def _options(command: Any) -> Iterator[str]:
    """Yield the options of a command, but for `--help`."""
    yield from (option.opts[0] for option in command.params if option.param_type_name == "option")


def main() -> None:
    """Print the counts as JSON: of the folders that are given, or of all."""
    folders = sys.argv[1:] or list(PARTS)
    counts = size_of(folders)
    if not sys.argv[1:]:
        counts |= commands_and_options() | words_of_documents()
    print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    main()
