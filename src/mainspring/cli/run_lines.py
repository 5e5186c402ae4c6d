"""The lines of runs that ended well, many at once: written by hand, to the same effect as the usual ones.

They are nearly all that a worker says. As records of their own they took several times as long as a short
task; so they are written together, and with one write.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import msgspec

from mainspring import clock
from mainspring.cli.visible import visible
from mainspring.declaring import OWN
from mainspring.kernel.outcome import DONE
from mainspring.kernel.visit import Run
from mainspring.reactive.queues import RUN

_NEEDS_QUOTES = re.compile("""[ \t=\r\n"']""").search
_encode = msgspec.json.Encoder().encode


def concerns_people(queue: str) -> bool:
    """Whether a queue is of a user's task; the engine's own are for JSON and debug."""
    return not queue.startswith(OWN) or queue.startswith(RUN)


class _Stamps:
    """Times as text; those of one second have most of it in common."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._second, self._text = -1, ""

    def of(self, at: float) -> tuple[str, float]:
        """The text of its second, and the part of it that has passed."""
        second = int(at)
        if second != self._second:
            self._second, self._text = second, time.strftime(self._form, time.gmtime(second))
        return self._text, at - second


class RunLines:
    """For people, with or without colours."""

    def __init__(self, *, colours: bool, everything: bool) -> None:
        self._everything = everything
        self._stamps = _Stamps("%Y-%m-%d %H:%M:%S")
        dim, bold, green = ("\x1b[2m", "\x1b[1m", "\x1b[32m") if colours else ("", "", "")
        cyan, magenta, reset = ("\x1b[36m", "\x1b[35m", "\x1b[0m") if colours else ("", "", "")
        self._colours = (dim, bold, green, cyan, magenta, reset)
        self._heads: dict[str, str | None] = {}  # by queue

    def text(self, runs: Sequence[Run], worker: str) -> str:
        """All lines, those of the engine's own queues left out."""
        dim, _, _, cyan, magenta, reset = self._colours
        part = f"{reset} {cyan}"
        ends = f"{reset}={magenta}"
        tail = f"{part}worker{ends}{worker[:8]}{reset}\n"
        offset = time.time() - clock.local()
        heads, of, found = self._heads, self._stamps.of, []
        for run in runs:
            visit, outcome = run.visit, run.outcome
            try:
                head = heads[visit.queue]
            except KeyError:
                head = heads[visit.queue] = self._head(visit.queue)
            if head is None:
                continue
            second, rest = of(offset + run.began + run.seconds)
            word = "done" if outcome is DONE else type(outcome).__name__.lower()
            found.append(
                f"{dim}{second}.{int(rest * 1000):03}Z{head}{_shown(visit.key)}{part}attempt{ends}"
                f"{visit.attempt + 1}{part}outcome{ends}{word}{part}duration_ms{ends}"
                f"{round(run.seconds * 1000, 3)}{tail}"
            )
        return "".join(found)

    def _head(self, queue: str) -> str | None:
        if not (self._everything or concerns_people(queue)):
            return None
        _, bold, green, cyan, magenta, reset = self._colours
        level = f"{reset} [{green}{bold}info{reset}] {bold}{'run.ended':20}{reset} "
        return (
            f"{level}{cyan}queue{reset}={magenta}{_shown(queue)}{reset} {cyan}key{reset}={magenta}"
        )


class JsonLines:
    """One object a line."""

    def __init__(self) -> None:
        self._stamps, self._others = _Stamps("%Y-%m-%dT%H:%M:%S"), _Stamps("%Y-%m-%dT%H:%M:%S")

    def text(self, runs: Sequence[Run], worker: str) -> str:
        offset = time.time() - clock.local()
        of, iso, found = self._stamps.of, self._iso, []
        for run in runs:
            visit, outcome = run.visit, run.outcome
            second, rest = of(offset + run.began + run.seconds)
            word = "done" if outcome is DONE else type(outcome).__name__.lower()
            found.append(
                f'{{"event":"run.ended","level":"info","queue":{_encode(visit.queue).decode()},'
                f'"key":{_encode(visit.key).decode()},"id":"{visit.id}",'
                f'"attempt":{visit.attempt + 1},"run":{run.token},"worker":"{worker}",'
                f'"started_at":"{iso(run.started)}","ended_at":"{iso(run.started + run.seconds)}",'
                f'"outcome":"{word}","duration_ms":{round(run.seconds * 1000, 3)},'
                f'"timestamp":"{second}.{int(rest * 1_000_000):06}Z"}}\n'
            )
        return "".join(found)

    def _iso(self, at: float) -> str:
        second, rest = self._others.of(at)
        return f"{second}.{int(rest * 1_000_000):06}+00:00"


def _shown(value: str) -> str:
    value = visible(value)
    return repr(value) if _NEEDS_QUOTES(value) else value
