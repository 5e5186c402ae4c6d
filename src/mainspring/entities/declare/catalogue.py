"""The catalogue: which stages and consumers a kind has, by the database and not by this worker's code.

During a rolling deploy workers know different stages. A system visit goes through those of the catalogue;
one that this worker's code does not know is offered unasked, and whoever knows it will see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mainspring import clock
from mainspring.db.tx import Tx
from mainspring.entities.declare.stage import Stage
from mainspring.entities.statements import SQL

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

    async def refresh(self, tx: Tx) -> None:
        """Read it again if it is not fresh."""
        if self.is_fresh:
            return
        at = clock.local()
        self.now = await read(tx, self._kind)
        self._read_at = at

    @property
    def is_fresh(self) -> bool:
        return clock.local() - self._read_at < FRESH_SECONDS

    def forget(self) -> None:
        """The next visit reads it again."""
        self._read_at = float("-inf")


class CatalogueRow(NamedTuple):
    """A row of read_catalogue.sql: a stage or a consumer."""

    what: str
    name: str
    interest: list[str] | None
    sees_own: bool
    of_stage: str | None
    was: list[str] | None


async def read(tx: Tx, kind: str) -> Catalogue:
    """The catalogue of a kind."""
    entries, sinks = [], []
    hooks: dict[str, tuple[str, ...]] = {}
    for row in await tx.rows(SQL["read_catalogue"], CatalogueRow, kind=kind):
        if row.what == "stage":
            wanted = None if row.interest is None else frozenset(row.interest)
            entries.append(CatalogueEntry(row.name, wanted, row.sees_own, tuple(row.was or ())))
        elif row.of_stage is not None:
            hooks[row.of_stage] = (*hooks.get(row.of_stage, ()), row.name)
        else:
            sinks.append(row.name)
    return Catalogue(tuple(entries), hooks, tuple(sinks))


class NewStage(NamedTuple):
    """A row of register_stages.sql."""

    name: str
    planned: int  # crawls


async def register(tx: Tx, kind: str, stages: Iterable[Stage]) -> list[str]:
    """Enter the stages of the code; answers those that are new to the catalogue."""
    listed = list(stages)
    rows = declared(listed)
    if any(stage.settings.was for stage in listed):
        await tx.run(SQL["take_over_stage"], kind=kind, stages=rows)
    new = await tx.rows(SQL["register_stages"], NewStage, kind=kind, stages=rows)
    return [stage.name for stage in new]


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


async def retire(tx: Tx, kind: str, stage: str) -> bool:
    """Take a stage out: it is asked no more. What waits in its queue stays there, and is reported."""
    return await tx.first(SQL["retire_stage"], str, kind=kind, stage=stage) is not None
