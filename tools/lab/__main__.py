"""Command line of the lab: `python -m hierogram.tools.lab bench` or `compare`."""

import typer

from hierogram.daemon.cli.main import choose_store, main
from hierogram.tools.lab.bench import bench
from hierogram.tools.lab.compare import compare

app = typer.Typer(name="python -m hierogram.tools.lab", no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(choose_store)
app.command()(bench)
app.command()(compare)

if __name__ == "__main__":
    main(app)
