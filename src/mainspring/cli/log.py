"""How events are written: the logger "mainspring", rendered by structlog, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from mainspring.errors import InvalidSetting
from mainspring.events import Event
from mainspring.kernel.config import OWN
from mainspring.reactive.names import RUN

_FIRST = ("queue", "key", "attempt", "outcome", "error", "text", "remedy", "duration_ms")
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
        console = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=20, pad_level=False, sort_keys=False
        )
        last += [_for_people, console]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=last)
    )
    if not json and level != "debug":
        handler.addFilter(_concerns_people)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mainspring").setLevel(level.upper())


def _event_alone(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """The facts of our own events come as fields here, so the text need not name them."""
    if isinstance(record := event.get("_record"), Event):
        event["event"] = record.msg
    return event


def _concerns_people(record: logging.LogRecord) -> bool:
    """Whether a line is of a user's task, or of something that went wrong; JSON and debug have all."""
    queue = str(getattr(record, "queue", ""))
    own = queue.startswith(OWN) and not queue.startswith(RUN)
    return record.levelno > logging.INFO or not own


def _for_people(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """What a line on a screen has room for; JSON has everything.

    What names the task comes first, a traceback below.
    """
    event["timestamp"] = f"{event['timestamp'][:23].replace('T', ' ')}Z"
    if event["event"].startswith("run."):
        event.pop("run", None)
        event.pop("id", None)  # its key is that, or what the user named it by
    if worker := event.get("worker"):
        event["worker"] = str(worker)[:8]
    if isinstance(queues := event.get("queues"), list):
        event["queues"] = " ".join(name for name in queues if not name.startswith(OWN))
    first, _, rest = str(event.get("error") or "").partition("\n")
    if rest:
        event |= {"error": first, "exception": rest}
    return {name: event.pop(name) for name in _FIRST if name in event} | event


def flush() -> None:
    """Write out what is buffered: the process is about to end without ceremony."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
