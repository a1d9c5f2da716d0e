"""Docstrings, comments and messages of the package, and the documents, do not use discouraged wordings."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house.sources import ROOT, modules, tree

WORDINGS = {
    r"\b(?:return|raise|say|tell|get|load|add|yield)s? what\b": "name the thing: `Return the tokenizer`",
    r"^what (?:is|was|has|does|makes|reads|holds)\b": "begin with a noun",
    r"\b(?:has|have) to be\b": "must be",
    r"\bis no (?:regular|valid|known|number|file|name)\b": "is not a …",
    r"\bso many\b": "a number or `limit`",
    r"\bwhere there (?:is|are)\b": "if there is",
    r"\b(?:whoever|somebody|anybody)\b": "users, clients, other processes",
    r"\b(?:anew|meanwhile|by now|at hand)\b": "leave it out",
    r"\bgive (?:one|either) of them\b": "are mutually exclusive",
    r"\b(?:behaviour|colour|favour|neighbour|modelled|normalise|optimise|analyse)\b": "American spelling",
}
"""Patterns of discouraged wordings, and advice for each."""
DISCOURAGED = re.compile("|".join(f"({pattern})" for pattern in WORDINGS), re.IGNORECASE)
MESSAGES = re.compile(r"(Error|Exception|warn|info|error|debug|echo|print|help|Option|Field|fail|problem|advice|note)$")


def texts(source: str, syntax: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, messages and comments with their lines. Skips comments if none has such a wording."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if MESSAGES.search(called):
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.lineno, part.value
    # Skip modules without a discouraged wording after a `#`, because tokenizing all modules takes a second.
    if not any(
        DISCOURAGED.search(" ".join(line[line.index("#") :].split())) for line in source.splitlines() if "#" in line
    ):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def findings(texts: Iterator[tuple[int, str]], file: str) -> list[str]:
    """Return a message with line and advice for each text with a discouraged wording. `texts` are (line, text)."""
    return [
        f"{file}:{line}: {match[0]!r}: {list(WORDINGS.values())[(match.lastindex or 1) - 1]}"
        for line, text in texts
        if (match := DISCOURAGED.search(" ".join(text.split())))
    ]


@pytest.mark.parametrize(
    "text", ["Return what divides text.", "5 has to be at least 6", "`x` is no regular file", "the favour of a client"]
)
def test_discouraged_wordings_are_found(text: str) -> None:
    assert findings(iter([(1, text)]), "a.py")


def test_code_uses_plain_wordings() -> None:
    assert not [
        finding
        for path in modules()
        for finding in findings(texts(path.read_text(encoding="utf-8"), tree(path)), str(path.relative_to(ROOT)))
    ]


def test_first_lines_of_docstrings_have_up_to_100_characters() -> None:
    docstrings = [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value.strip().partition("\n")[0])
        # Docstrings of keywords are generated from the help texts of options.
        for path in modules()
        if path.name != "keywords.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    assert len(docstrings) > 1000
    assert [location for location, line in docstrings if len(line) > 100] == []


def test_pages_use_plain_wordings() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert len(pages) > 20
    assert not [finding for page in pages for finding in findings(numbered_lines(page), str(page.relative_to(ROOT)))]


def numbered_lines(page: Path) -> Iterator[tuple[int, str]]:
    return iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
