"""The adapter: one system seen as producer and as worker, run in its own virtual environment.

``python -m benchmarks.adapter NAME client URL SETTINGS`` reads one JSON command per line and
answers each with one JSON line; ``... worker ...`` runs jobs until it is told to stop.
Everything is timed on this side, so the harness's own speed is never part of a figure.
Standard library only, but for uvloop where a system has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Coroutine, Sequence
from typing import Any

from benchmarks import command_lines
from benchmarks.probe import FAIL_ONCE, NOTHING, STAMP

Payload = dict[str, Any]
STEPS = 10  # of a chain
PR_SET_PDEATHSIG = 1


def payload(number: int = 0, act: int = NOTHING) -> Payload:
    """About 100 bytes of JSON, as a small real job has."""
    return {
        "user_id": 48_213,
        "email": "grace.hopper@example.org",
        "template": "welcome-back",
        "locale": "en-GB",
        "number": number,
        "act": act,
    }


class Adapter:
    """What a system must be able to do. A producer calls open, a worker calls work."""

    chunk = 5_000  # jobs per bulk call; more where the system has no reason to stop there

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.url = url
        self.settings = settings

    async def migrate(self) -> None:
        """Create what the system needs in an empty database."""

    async def open(self) -> None:
        """Connect as a producer."""

    async def close(self) -> None:
        """Let go of what `open` took."""

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        """Enqueue one job; return when it is committed."""
        raise NotImplementedError

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        """Enqueue up to `chunk` jobs the fastest way the system's API has."""
        raise NotImplementedError

    async def start_chains(self, jobs: Sequence[Payload]) -> None:
        """Start a workflow of STEPS dependent steps for each of up to `chunk` jobs.

        Each step counts as a run; a job that asks for a stamp gets it at its workflow's first line.
        """
        raise NotImplementedError

    async def start_fan(self, width: int, number: int) -> None:
        """Start a workflow of so many steps side by side, and one that takes all their results.

        That last one leaves a stamp under this number, and each of them counts as a run.
        """
        raise NotImplementedError

    async def remaining(self) -> int:
        """How many jobs the store does not yet call complete."""
        raise NotImplementedError

    async def work(self) -> None:
        """Run jobs until SIGTERM."""
        raise NotImplementedError


class Producer:
    """Carries out the harness's commands on an adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    async def ready(self) -> None:
        """Answer, which says that everything is imported."""

    async def migrate(self) -> None:
        await self.adapter.migrate()

    async def open(self) -> None:
        await self.adapter.open()

    async def close(self) -> None:
        await self.adapter.close()

    async def remaining(self) -> int:
        return await self.adapter.remaining()

    async def singles(self, seconds: float) -> dict[str, float]:
        """Enqueue one after the other, each awaited, for so long."""
        for _ in range(50):
            await self.adapter.one(payload())
        count, start = 0, time.monotonic()
        while time.monotonic() - start < seconds:
            for _ in range(10):
                await self.adapter.one(payload())
            count += 10
        return {"count": count, "seconds": time.monotonic() - start}

    async def bulk(
        self, n: int, failing: int = 0, groups: int = 0, act: int = NOTHING, priority: int = 0
    ) -> dict[str, float]:
        """Enqueue n jobs; every `failing`-th fails once; spread over so many groups."""
        kinds = [FAIL_ONCE if failing and i % failing == 0 else act for i in range(n)]
        jobs = [payload(i + 1, kind) if kind else payload() for i, kind in enumerate(kinds)]
        names = [f"group-{i % groups}" for i in range(n)] if groups else None
        start = time.monotonic()
        for low in range(0, n, self.adapter.chunk):
            some = slice(low, low + self.adapter.chunk)
            await self.adapter.many(
                jobs[some], priority=priority, groups=names[some] if names else None
            )
        return {"count": n, "seconds": time.monotonic() - start, "returned": time.monotonic_ns()}

    async def chains(self, n: int) -> None:
        for low in range(0, n, self.adapter.chunk):
            jobs = [payload() for _ in range(min(self.adapter.chunk, n - low))]
            await self.adapter.start_chains(jobs)

    async def fan(self, width: int, number: int) -> dict[str, int]:
        before = time.monotonic_ns()
        await self.adapter.start_fan(width, number)
        return {"before": before, "after": time.monotonic_ns()}

    async def paced(
        self,
        n: int,
        gap: float,
        batch: int = 1,
        priority: int = 0,
        first: int = 1,
        chains: bool = False,
    ) -> dict[str, list[int]]:
        """Enqueue stamped jobs at a steady pace; when each call began and when it returned."""
        before: list[int] = []
        after: list[int] = []
        due = time.monotonic()
        for number in range(first, first + n, batch):
            due += gap
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            jobs = [payload(i, STAMP) for i in range(number, number + batch)]
            start = time.monotonic_ns()
            if chains:
                await self.adapter.start_chains(jobs)
            elif batch == 1:
                await self.adapter.one(jobs[0], priority=priority)
            else:
                await self.adapter.many(jobs, priority=priority)
            before += [start] * batch
            after += [time.monotonic_ns()] * batch
        return {"before": before, "after": after}

    async def serve(self, answers: int) -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            try:
                result = await getattr(self, command.pop("do"))(**command)
                answer = {"ok": result}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            os.write(answers, json.dumps(answer).encode() + b"\n")


async def stopped() -> None:
    """Wait for SIGTERM; for workers whose library leaves signals to the application."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    await event.wait()


def run(main: Coroutine[Any, Any, None]) -> None:
    try:
        from uvloop import run as run_loop
    except ImportError:
        asyncio.run(main)
    else:
        run_loop(main)


def end_with_parent() -> None:
    """A harness that was killed must not leave workers behind, which would be in the next figures."""
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def collect_less(threshold: int) -> None:
    """What an application may do for any of these systems: look for garbage less often."""
    if threshold:
        gc.freeze()
        gc.set_threshold(threshold)


def start() -> None:
    end_with_parent()
    name, role, url, settings = sys.argv[1:5]
    system = importlib.import_module(f"benchmarks.systems.{name}").System
    adapter: Adapter = system(url, json.loads(settings))
    if role == "worker" and adapter.settings.get("cli"):
        command, variables = command_lines.command(name, url, adapter.settings)
        os.execve(command[0], command, {**os.environ, **variables})
    if role == "worker":
        collect_less(adapter.settings.get("gc", 0))
        run(adapter.work())
        return
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints belongs to the log, not between our answers
    run(Producer(adapter).serve(answers))


if __name__ == "__main__":
    start()
