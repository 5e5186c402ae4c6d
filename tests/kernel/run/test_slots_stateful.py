"""Slots and buffer against a table in memory, by random steps: whatever happens, all visits end.

Offers, reads, settles late and out of order, fences, shards that go and come back, turns that others
hold, suspects of a death, holds that fail, visits that waited too long. Afterwards the worker is left
alone: nothing may be left in hand that is neither waiting nor run.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import clock
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.owned import Owned
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.visit import Run, Visit
from visits import NOON, known_keys, queue, visit

SHARDS = 4
KEYS = 6
QUEUES = "abcd"


@dataclass
class Row:
    """A due visit of the table."""

    version: int
    crashes: int
    at: float


class World:
    """A worker's memory, and a table that it reads and settles."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[tuple[str, str], Row] = {}
        self.versions = 0
        self.unsettled: list[Run] = []
        self.owned = Owned()
        self.owned.good_until = float("inf")
        self.owned.shards = frozenset(range(SHARDS))
        declared = [queue(name, handler=self.handle, turns="entity") for name in QUEUES]
        self.buffer = Buffer(declared, self.owned.gate, slots=6)
        limited = self.buffer.queues["d"]
        limited.limit(paused=False, concurrency=2, rate=None)
        limited.part = 2
        for shard in range(SHARDS):
            if self.random.random() < 0.5:
                self.owned.suspects[shard] = {(name, 5): (NOON.timestamp(), "") for name in QUEUES}
        self.runner = Runner(
            self.owned,
            self.buffer,
            concurrency=6,
            hold=self.hold,
            finished=self.unsettled.extend,
            wants_more=lambda: None,
            left=lambda _: None,
        )

    # -- what runs

    async def handle(self, run: Run) -> Outcome:
        for _ in range(self.random.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)
        if self.random.random() < 0.1:
            raise ValueError("this time not")
        return Done()

    async def hold(self, run: Run, work_timeout: float | None) -> bool:
        await asyncio.sleep(0)
        if self.random.random() < 0.05:
            raise ConnectionError("no answer")
        run.held = self.random.random() < 0.8
        return run.held

    # -- what happens

    def offer(self) -> None:
        key = (self.random.choice(QUEUES), str(self.random.randrange(KEYS)))
        self.versions += 1
        fresh = Row(0, self.random.choice((0, 0, 0, 1, 2)), -10 * self.random.random())
        self.rows.setdefault(key, fresh).version = self.versions

    def read(self) -> None:
        self.buffer.read_sent()
        found = sorted((self.visit_of(*key) for key in self.rows), key=lambda v: v.position)
        fresh = self.buffer.new_of(found, self.owned.shards)
        for name in QUEUES:
            if page := [each for each in fresh if each.queue == name]:
                self.buffer.add_page(name, 5, page)
        self.runner.fill()

    def visit_of(self, name: str, key: str) -> Visit:
        row, waited = self.rows[name, key], self.random.choice((0.0, 0.0, 0.0, 10.0))
        facts: dict[str, Any] = {"version": row.version, "crashes": row.crashes}
        return visit(
            key,
            at=row.at,
            name=name,
            shard=int(key) % SHARDS,
            read_at=clock.local() - waited,
            **facts,
        )

    def settle(self) -> None:
        for _ in range(min(self.random.randrange(1, 4), len(self.unsettled))):
            run = self.unsettled.pop(self.random.randrange(len(self.unsettled)))
            name = (run.visit.queue, run.visit.key)
            row = self.rows.get(name)
            if row is not None and row.version == run.visit.version:
                if isinstance(run.outcome, Done):
                    del self.rows[name]
                else:
                    self.versions += 1
                    row.version = self.versions
            self.owned.end([run])
            if self.buffer.settled([run]):
                self.runner.fill()

    def fence(self) -> None:
        self.runner.stop_all("fenced")

    def give(self) -> None:
        self.owned.let_go({n for n in range(SHARDS) if self.random.random() < 0.3})

    def adopt(self) -> None:
        self.owned.own(range(SHARDS), count=SHARDS)

    def look(self) -> None:
        """The loop learns which shards came and went."""
        shards, gone = self.owned.shards, frozenset(self.owned.let_go_of)

        def unwanted(each: Visit) -> bool:
            return each.shard not in shards or each.shard in gone

        self.buffer.drop(unwanted, shards)
        self.runner.suspects.drop(unwanted)
        self.owned.loop_looked(gone)

    def hold_elsewhere(self) -> None:
        self.buffer.turns.foreign = {("entity", str(self.random.randrange(KEYS)))}

    def clear_suspects(self) -> None:
        self.owned.suspects = {}

    async def live(self, steps: int) -> None:
        common = [self.offer, self.read, self.settle] * 4
        rare = [self.fence, self.give, self.adopt, self.look, self.hold_elsewhere]
        for _ in range(steps):
            self.random.choice([*common, *rare, self.clear_suspects])()
            await asyncio.sleep(0)

    async def come_to_rest(self) -> None:
        self.buffer.turns.foreign = set()
        self.adopt()
        self.look()
        for _ in range(1000):
            if not (self.rows or self.owned.runs):
                return
            self.read()
            self.settle()
            await asyncio.sleep(0)


async def test_whatever_happens_every_visit_ends(caplog: pytest.LogCaptureFixture) -> None:
    """T1: nothing that a worker owns is ever forgotten there."""
    caplog.set_level(logging.CRITICAL, "mainspring")
    for seed in range(100):
        world = World(seed)
        await world.live(150)
        await world.come_to_rest()
        left = (world.rows, world.owned.runs, known_keys(world.buffer), world.buffer.size)
        assert left == ({}, {}, set(), 0), f"seed {seed}"
        world.runner.close()
        await world.runner.ended(1)
