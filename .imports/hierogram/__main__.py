"""Run the command line, as `hierogram` and as `python -m hierogram`."""

import sys


def main() -> None:
    """Run the command line. An interrupt while modules are imported prints no traceback."""
    try:
        if _command() == "serve":
            # Install the handlers first: SIGHUP reloads the configuration and must not end a daemon that is starting.
            from hierogram.daemon.serving.signals import install_signal_handlers

            install_signal_handlers()
        from hierogram.daemon.cli.main import main as run

        run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Until 3.12, Python raises RuntimeError if an interrupt arrives while a class is created.
        kinds = type(error), type(error.__cause__)
        if SystemExit in kinds:
            sys.exit(0)
        if KeyboardInterrupt not in kinds:
            raise
        sys.exit(130)


def _command() -> str | None:
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument == "--store":
            next(arguments, None)
        elif not argument.startswith("-"):
            return argument
    return None


if __name__ == "__main__":
    main()
