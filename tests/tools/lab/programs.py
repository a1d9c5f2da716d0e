"""Programs of `tools/`, run within this process, which has modules and kernels loaded."""

from importlib import import_module
from pathlib import Path

import typer
from typer.testing import CliRunner, Result


def ran(module: str, *arguments: str) -> Result:
    """Return the exit code and output of a module's program."""
    app = typer.Typer()
    app.command()(import_module(f"hierogram.tools.lab.{module}").main)
    return CliRunner().invoke(app, arguments)


def printed(module: str, *arguments: str | Path) -> str:
    """Return the output of a module's program, which must succeed."""
    result = ran(module, *map(str, arguments))
    assert result.exit_code == 0, f"{result.stderr}{result.exception!r}"
    return result.stdout
