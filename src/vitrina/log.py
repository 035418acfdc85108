"""Structured logs: readable on a terminal, JSON elsewhere."""

import logging
import sys
from typing import Any


class Log:
    """The logger, of what is imported at the first line: structlog brings what colours tracebacks, 0.1 s of a command
    that logs nothing."""

    def __getattr__(self, name: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(), name)


log = Log()


def configure_logging(log_format: str = "auto", level: int = logging.INFO) -> None:
    """Once per process; everything goes to standard error."""
    import structlog

    readable = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
