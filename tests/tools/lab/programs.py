"""Programs of `tools/`, run within this process, in which modules and kernels are loaded already."""

from importlib import import_module
from pathlib import Path

import typer
from typer.testing import CliRunner, Result


def ran(module: str, *arguments: str) -> Result:
    """How the program of a module ends, and what it prints."""
    app = typer.Typer()
    app.command()(import_module(f"hierogram.tools.lab.{module}").main)
    return CliRunner().invoke(app, arguments)


def printed(module: str, *arguments: str | Path) -> str:
    """What the program prints, which has to end well."""
    result = ran(module, *map(str, arguments))
    assert result.exit_code == 0, result.stderr or repr(result.exception)
    return result.stdout
