"""How events are written: the logger "mainspring", rendered by structlog, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from mainspring.errors import InvalidSetting
from mainspring.events import Event

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str, *, json: bool) -> None:
    """Send every event of this process to standard error."""
    if level not in LEVELS:
        raise InvalidSetting(f"--log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    before: list[Any] = [
        _event_alone,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json:
        last += [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    else:
        last.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=20))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=last)
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mainspring").setLevel(level.upper())


def _event_alone(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """The facts of our own events come as fields here, so the text need not name them."""
    if isinstance(record := event.get("_record"), Event):
        event["event"] = record.msg
    return event


def flush() -> None:
    """Write out what is buffered: the process is about to end without ceremony."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
