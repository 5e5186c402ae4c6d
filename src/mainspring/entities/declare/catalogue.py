"""The catalogue: which stages and consumers a kind has, by the database and not by this worker's code.

During a rolling deploy workers know different stages. A system visit goes through those of the catalogue;
one that this worker's code does not know is offered unasked, and whoever knows it will see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mainspring.entities.declare.stage import Stage
from mainspring.entities.statements import SQL
from mainspring.kernel import clock

# A worker's knowledge of the catalogue is at most this old (seconds).
FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A stage of the catalogue."""

    name: str
    interest: frozenset[str] | None  # None: every field
    sees_own: bool
    was: tuple[str, ...] = ()  # its former names


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The living stages and consumers of a kind."""

    stages: tuple[CatalogueEntry, ...] = ()
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # stage -> its own consumers
    sinks: tuple[str, ...] = ()

    def successor(self, stage: str) -> str | None:
        """The stage that has taken over from one that the catalogue no longer has."""
        found = None
        for entry in self.stages:
            if entry.name == stage:
                return None
            if stage in entry.was:
                found = entry.name
        return found

    def consumers(self, stage: str) -> tuple[str, ...]:
        """Who gets the events of a stage."""
        return (*self.hooks.get(stage, ()), *self.sinks)


class Known:
    """The catalogue of a kind as this worker last read it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._read_at = float("-inf")
        self.now = Catalogue()

    async def refresh(self, connection: Any) -> None:
        """Read it again if it is not fresh."""
        if self.is_fresh:
            return
        at = clock.local()
        self.now = await read(connection, self._kind)
        self._read_at = at

    @property
    def is_fresh(self) -> bool:
        return clock.local() - self._read_at < FRESH_SECONDS

    def forget(self) -> None:
        """The next visit reads it again."""
        self._read_at = float("-inf")


async def read(connection: Any, kind: str) -> Catalogue:
    """The catalogue of a kind."""
    rows = await connection.fetch(SQL["read_catalogue"].numbered, kind)
    entries, sinks = [], []
    hooks: dict[str, tuple[str, ...]] = {}
    for what, name, interest, sees_own, of_stage, was in rows:
        if what == "stage":
            wanted = None if interest is None else frozenset(interest)
            entries.append(CatalogueEntry(name, wanted, sees_own, tuple(was)))
        elif of_stage is not None:
            hooks[of_stage] = (*hooks.get(of_stage, ()), name)
        else:
            sinks.append(name)
    return Catalogue(tuple(entries), hooks, tuple(sinks))


async def register(connection: Any, kind: str, stages: Iterable[Stage]) -> list[str]:
    """Enter the stages of the code; answers those that are new to the catalogue."""
    listed = list(stages)
    values = {"kind": kind, "stages": declared(listed)}
    if any(stage.settings.was for stage in listed):
        taking_over = SQL["take_over_stage"]
        await connection.fetch(taking_over.numbered, *taking_over.arguments(values))
    statement = SQL["register_stages"]
    rows = await connection.fetch(statement.numbered, *statement.arguments(values))
    return [row["name"] for row in rows]


def declared(stages: Iterable[Stage]) -> str:
    """The stages as register_stages.sql takes them."""
    rows = []
    for stage in stages:
        s = stage.settings
        rows.append(
            {
                "name": stage.name,
                "interest": None if s.interest is None else list(s.interest),
                "sees_own": s.sees_own,
                "was": list(s.was),
                "declared": {
                    "reads": None if s.reads is None else list(s.reads),
                    "writes": None if s.writes is None else list(s.writes),
                    "saved": stage.has_hook,
                    "schema": stage.state.schema,
                },
            }
        )
    return msgspec.json.encode(rows).decode()


async def retire(connection: Any, kind: str, stage: str) -> bool:
    """Take a stage out: it is asked no more. What waits in its queue stays there, and is reported."""
    statement = SQL["retire_stage"]
    values = {"kind": kind, "stage": stage}
    return bool(await connection.fetch(statement.numbered, *statement.arguments(values)))
