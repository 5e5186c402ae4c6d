"""How events are written: the logger "mainspring", rendered by structlog, for people or as JSON."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from mainspring.errors import InvalidSetting
from mainspring.events import Event, facts_of
from mainspring.kernel.config import OWN
from mainspring.reactive.names import RUN

_FIRST = ("queue", "key", "attempt", "outcome", "error", "text", "remedy", "duration_ms")
LEVELS = ("debug", "info", "warning", "error")
# The two lines of every run, which are nearly all that a worker says.
_RUNS = frozenset({"run.started", "run.ended"})
_NEEDS_QUOTES = re.compile("""[ \t=\r\n"']""")
_encode = msgspec.json.Encoder(enc_hook=str).encode


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
    quick = _quick_json if json else None if sys.stderr.isatty() else _quick_line
    handler.setFormatter(_Formatter(quick, foreign_pre_chain=before, processors=last))
    if not json and level != "debug":
        handler.addFilter(_concerns_people)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mainspring").setLevel(level.upper())


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """By structlog, but for runs that started or ended well: it takes several times as long for their lines
    as a short task takes, and there are two for each. `quick` writes these, to the same effect."""

    def __init__(self, quick: Callable[[Event], str] | None, **how: Any) -> None:
        super().__init__(**how)
        self._quick = quick

    def format(self, record: logging.LogRecord) -> str:
        is_usual = record.levelno == logging.INFO and record.msg in _RUNS
        if self._quick is not None and is_usual and isinstance(record, Event):
            return self._quick(record)
        return super().format(record)


def _quick_line(record: Event) -> str:
    facts = facts_of(record)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
    facts.pop("run", None)
    facts.pop("id", None)
    if worker := facts.get("worker"):
        facts["worker"] = str(worker)[:8]
    ordered = {name: facts.pop(name) for name in _FIRST if name in facts} | facts
    shown = " ".join([f"{name}={_shown(value)}" for name, value in ordered.items()])
    return f"{stamp}.{int(record.msecs):03}Z [info] {record.msg:20} {shown}"


def _shown(value: object) -> str:
    is_plain = isinstance(value, str) and not _NEEDS_QUOTES.search(value)
    return str(value) if is_plain else repr(value)


def _quick_json(record: Event) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    micro = int(record.created % 1 * 1_000_000)
    event = {"event": record.msg, "level": "info", **facts_of(record)}
    return _encode({**event, "timestamp": f"{stamp}.{micro:06}Z"}).decode()


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
