"""The daemon's log: structured events on standard error, as JSON or as colored lines."""

import logging
import sys

import structlog

from hierogram.daemon.configuration import LogSection

Log = structlog.stdlib.BoundLogger


def open_log(section: LogSection) -> Log:
    """Configure the logs of the daemon and of libraries, and return the logger. May be called again."""
    human = section.format == "human" or (section.format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if human:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(section.level.upper())
    # The daemon logs webhook requests itself. httpx2 would also log their URL, which may contain credentials.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    log: Log = structlog.stdlib.get_logger("hierogram")
    return log
