"""Run notebooks without a server or kernel, and write the outputs of their cells.

python -m hierogram.tools.lab.notebooks docs/notebooks/*.ipynb
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def iterate_outputs(notebook: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run the code cells in one namespace and a temporary folder. Yield the outputs of each code cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    yield _run("".join(cell["source"]), names)
        finally:
            os.chdir(before)


def _run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell. Returns its outputs: the printed text, then the value of the last expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def with_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run a notebook and return a copy with the outputs of its cells. Raises the error of a cell."""
    outputs = iterate_outputs(notebook)
    cells = [
        cell | ({"outputs": next(outputs), "execution_count": None} if cell["cell_type"] == "code" else {})
        for cell in notebook["cells"]
    ]
    # Run the generator to its end, so that it deletes the folder.
    assert next(outputs, None) is None
    return notebook | {"cells": cells}


def main(paths: list[str]) -> None:
    """Run notebooks and write them with their outputs."""
    for path in map(Path, paths):
        notebook = with_outputs(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {len(notebook['cells'])} cells")


if __name__ == "__main__":
    main(sys.argv[1:])
