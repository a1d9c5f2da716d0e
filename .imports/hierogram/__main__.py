"""Run the command line, as `hierogram` and as `python -m hierogram`."""

import sys


def main() -> None:
    """Run the command line; whoever interrupts it while modules are loaded sees no traceback."""
    try:
        from hierogram.daemon.cli.main import main as run

        run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Until 3.12, Python makes a RuntimeError of what interrupts the making of a class.
        if KeyboardInterrupt not in (type(error), type(error.__cause__)):
            raise
        sys.exit(130)


if __name__ == "__main__":
    main()
