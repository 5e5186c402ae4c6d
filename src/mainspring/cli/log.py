"""How events are written: the logger "mainspring" and those of users, rendered by structlog, for people or
as JSON. The ends of runs, many at once, are written by hand (`run_lines`)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor

from mainspring.cli.run_lines import JsonLines, RunLines, concerns_people
from mainspring.cli.visible import visible
from mainspring.declaring import OWN
from mainspring.errors import InvalidSetting
from mainspring.events import Event
from mainspring.kernel.run.suspended import running
from mainspring.kernel.visit import Run

_FIRST = ("queue", "task", "key", "attempt", "outcome", "error", "text", "remedy", "duration_ms")
LEVELS = ("debug", "info", "warning", "error")
_BLOCKS = ("exception", "stack")  # texts of several lines


def configure(level: str, *, json: bool) -> None:
    """Send every event of this process to standard error, and what users log at this level or above."""
    if level not in LEVELS:
        raise InvalidSetting(f"--log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    before: list[Processor] = [
        _event_alone,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,  # plain: no values of local variables
    ]
    colours = sys.stderr.isatty()
    lines: RunLines | JsonLines
    if json:
        last.append(structlog.processors.JSONRenderer(default=str))
        lines = JsonLines()
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=colours,
            pad_event_to=20,
            pad_level=False,
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
        last += [_for_people, console]
        lines = RunLines(colours=colours, everything=level == "debug")
    handler = Handler(sys.stderr, lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=last)
    )
    if not json and level != "debug":
        handler.addFilter(_concerns_people)
    handler.addFilter(_name_run)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("mainspring").setLevel(level.upper())


class Handler(logging.StreamHandler[TextIO]):
    """Writes records one by one, and the ends of runs many at once."""

    def __init__(self, stream: TextIO, lines: RunLines | JsonLines) -> None:
        super().__init__(stream)
        self._lines = lines

    def runs_ended(self, runs: Sequence[Run], worker: str) -> None:
        """Never raises: a line that cannot be written must not cost a result."""
        try:
            if text := self._lines.text(runs, worker):
                with self.lock:  # type: ignore[union-attr]
                    self.stream.write(text)
                    self.flush()
        except Exception:
            self.handleError(logging.makeLogRecord({"msg": "run.ended"}))


def _name_run(record: logging.LogRecord) -> bool:
    """What a user's own code logs says who it is and in which run."""
    if not isinstance(record, Event):
        record.logger = record.name
        if (run := running.get()) is not None:
            record.task, record.id = run.visit.queue, str(run.visit.id)
            record.key, record.attempt = run.visit.key, run.visit.attempt + 1
    return True


def _event_alone(_: object, __: str, event: EventDict) -> EventDict:
    """The facts of our own events come as fields here, so the text need not name them."""
    if isinstance(record := event.get("_record"), Event):
        event["event"] = record.msg
    return event


def _concerns_people(record: logging.LogRecord) -> bool:
    """Whether a line is of a user's task, or of something that went wrong; JSON and debug have all."""
    return record.levelno > logging.INFO or concerns_people(str(getattr(record, "queue", "")))


def _for_people(_: object, __: str, event: EventDict) -> EventDict:
    """What a line on a screen has room for; JSON has everything.

    What names the task comes first, a traceback below.
    """
    event["timestamp"] = f"{event['timestamp'][:23].replace('T', ' ')}Z"
    if str(event["event"]).startswith("run."):
        event.pop("run", None)
        event.pop("id", None)  # its key is that, or what the user named it by
        if event.pop("ended_at", None) is not None:
            event.pop("started_at", None)  # so long before the line's own time as it took
    elif event.get("id") == event.get("key"):
        event.pop("key", None)
    if worker := event.get("worker"):
        event["worker"] = str(worker)[:8]
    if isinstance(queues := event.get("queues"), list):
        event["queues"] = " ".join(name for name in queues if not name.startswith(OWN))
    first, _, rest = str(event.get("error") or "").partition("\n")
    if rest:
        event.update(error=first, exception=rest)
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible(value, lines=name in _BLOCKS)
    return {name: event.pop(name) for name in _FIRST if name in event} | dict(event)


def flush() -> None:
    """Write out what is buffered: the process is about to end without ceremony."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
