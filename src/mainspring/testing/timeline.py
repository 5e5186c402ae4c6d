"""A timeline of what ran when and why: of a simulation, or of a replayed history. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from mainspring.reactive.decide.evaluate import show_moment
from mainspring.reactive.model.chunks import Chunk, check_chunk
from mainspring.reactive.model.durations import show_duration

_NAME_WIDTH = 24
_CELL = timedelta(minutes=20)  # of the chart of a day: three an hour fill a terminal


@dataclass(frozen=True, slots=True)
class Ran:
    """A run: when it fired, started and ended, what came of it, and why it was started.

    `outcome` is "done", "failed" or "void" (it never started: a param was rewound meanwhile).
    """

    task: str
    fired_at: datetime
    started_at: datetime
    ended_at: datetime
    outcome: str
    cause: str
    kind: str = "regular"
    error: str | None = None

    def __str__(self) -> str:
        took = show_duration(self.ended_at - self.started_at)
        waited = self.started_at - self.fired_at
        late = f", waited {show_duration(waited)}" if waited else ""
        end = self.outcome if self.error is None else f"{self.outcome}: {self.error}"
        return f"{show_moment(self.started_at)}  {self.task}  {end} in {took}{late}  because {self.cause}"


@dataclass(frozen=True, slots=True)
class Missed:
    """A task had no recorded success within the time it is expected to."""

    task: str
    at: datetime

    def __str__(self) -> str:
        return f"{show_moment(self.at)}  {self.task}  missed its expectation"


@dataclass(slots=True)
class Timeline:
    """What happened, in the order in which it ended."""

    runs: list[Ran] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)

    def of(self, task: str) -> list[Ran]:
        """The runs of one task."""
        return [ran for ran in self.runs if ran.task == task]

    def usual_duration(self, task: str) -> timedelta | None:
        """How long its successful runs take: the median."""
        done = [ran for ran in self.of(task) if ran.outcome == "done"]
        took = [(ran.ended_at - ran.started_at).total_seconds() for ran in done]
        return timedelta(seconds=median(took)) if took else None

    def lines(self) -> list[str]:
        """One line for each run and each missed expectation, by time."""
        events: list[tuple[datetime, str]] = [(ran.started_at, str(ran)) for ran in self.runs]
        events += [(missed.at, str(missed)) for missed in self.missed]
        return [text for _, text in sorted(events, key=lambda event: event[0])]

    def chart(self, *, by: Chunk | str = "day", tasks: Iterable[str] | None = None) -> str:
        """A row for each task, a column for each chunk: how often it ran, x failed, ! missed."""
        chunk = check_chunk(by)
        moments = [ran.started_at for ran in self.runs] + [missed.at for missed in self.missed]
        if not moments:
            return "nothing ran"
        first = chunk.floor(min(moments))
        columns = [first, *chunk.starts(first, max(moments))]
        names = list(tasks) if tasks is not None else sorted({ran.task for ran in self.runs})
        wide = max([_NAME_WIDTH, *(len(name) for name in names)])
        labels = [chunk.show(start)[-2:] for start in columns]
        head = f"{'':{wide}} {' '.join(f'{label:>2}' for label in labels)}"
        return "\n".join([head, *(self._row(name, wide, chunk, columns) for name in names)])

    def day_chart(self, day: datetime, *, tasks: Iterable[str] | None = None) -> str:
        """24 hours from a moment on, a row for each task: █ runs, ░ ready but waits, x failed, ! missed."""
        names = list(tasks) if tasks is not None else sorted({ran.task for ran in self.runs})
        wide = max([_NAME_WIDTH, *(len(name) for name in names)])
        hours = (day + timedelta(hours=hour) for hour in range(24))
        head = f"{'':{wide}} {''.join(f'{hour:%H} ' for hour in hours)}".rstrip()
        return "\n".join([head, *(f"{name:{wide}} {self._strip(name, day)}" for name in names)])

    def _strip(self, task: str, day: datetime) -> str:
        cells = ["·"] * (timedelta(days=1) // _CELL)

        def draw(mark: str, first: datetime, last: datetime) -> None:
            for n in range(
                max(0, (first - day) // _CELL), min(len(cells), (last - day) // _CELL + 1)
            ):
                cells[n] = mark

        moment = timedelta(microseconds=1)  # an end belongs to the cell before it
        for ran in self.of(task):
            if ran.started_at > ran.fired_at:
                draw("░", ran.fired_at, ran.started_at - moment)
            last = max(ran.started_at, ran.ended_at - moment)
            if ran.outcome != "void":
                draw("x" if ran.outcome == "failed" else "█", ran.started_at, last)
        for missed in self.missed:
            if missed.task == task:
                draw("!", missed.at, missed.at)
        return "".join(cells)

    def _row(self, task: str, wide: int, chunk: Chunk, columns: list[datetime]) -> str:
        done = dict.fromkeys(columns, 0)
        failed: set[datetime] = set()
        missed = {chunk.floor(miss.at) for miss in self.missed if miss.task == task}
        for ran in self.of(task):
            start = chunk.floor(ran.started_at)
            if ran.outcome == "done":
                done[start] += 1
            elif ran.outcome == "failed":
                failed.add(start)
        cells = [_cell(done[start], start in failed, start in missed) for start in columns]
        return f"{task:{wide}} {' '.join(cells)}"


def _cell(done: int, failed: bool, missed: bool) -> str:
    count = "·" if not done else str(done) if done < 10 else "+"
    return f"{'!' if missed else 'x' if failed else ' '}{count}"
