"""Run the command line, as `hierogram` and as `python -m hierogram`."""

import sys


def main() -> None:
    """Run the command line; nobody who interrupts it while modules are loaded sees a traceback."""
    try:
        if _command() == "serve":
            # A daemon that is starting must not end because its configuration changes.
            from hierogram.daemon.serving.signals import install_signal_handlers

            install_signal_handlers()
        from hierogram.daemon.cli.main import main as run

        run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Until 3.12, Python makes a RuntimeError of what interrupts the making of a class.
        kinds = type(error), type(error.__cause__)
        if SystemExit in kinds:
            sys.exit(0)
        if KeyboardInterrupt not in kinds:
            raise
        sys.exit(130)


def _command() -> str | None:
    """Return the command on the command line."""
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument == "--store":
            next(arguments, None)
        elif not argument.startswith("-"):
            return argument
    return None


if __name__ == "__main__":
    main()
