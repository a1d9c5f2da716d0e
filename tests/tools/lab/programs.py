"""Programs of `tools/lab`, run within this process, because it has already loaded modules and kernels."""

from importlib import import_module
from pathlib import Path

import typer
from typer.testing import CliRunner, Result


def invoke_lab(module: str, *arguments: str) -> Result:
    """Run a module's program. Returns its exit code, output and exception."""
    app = typer.Typer()
    app.command()(import_module(f"hierogram.tools.lab.{module}").main)
    return CliRunner().invoke(app, arguments)


def run_lab(module: str, *arguments: str | Path) -> str:
    """Return the output of a module's program, which must succeed."""
    result = invoke_lab(module, *map(str, arguments))
    assert result.exit_code == 0, f"{result.stderr}{result.exception!r}"
    return result.stdout
