"""kill -9 of the worker and of the service at each step: nothing is lost, nothing is saved twice (S10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from services import Service
from test_remote_away import endpoint_of, ranked, tried
from test_remote_stage import declare

from draws import fast_first
from mainspring.testing import wait_until
from stages import Stages
from warm import WorkerProcess

HERE = Path(__file__).parent
# Runs are many in a settle.
STEPS = [
    *(f"{step}:{n}" for step in ("run.started", "run.ended") for n in (1, 30)),
    *(f"{step}:{n}" for step in ("settle.sending", "settle.answered") for n in (1, 2)),
]
TWICE = "select count(*) from mainspring.state where (body->>'visits')::int <> 1"
UNHEARD = "select count(*) from mainspring.event"


@pytest.mark.parametrize("step", fast_first(STEPS, 3))
async def test_a_worker_killed_while_it_calls_loses_nothing(
    stages: Stages, service: Service, tmp_path: Path, step: str
) -> None:
    """S10: the answer is dropped with the call; another worker runs the visits again."""
    declare(stages, service.address, ask=False, saved=True)
    await stages.install()
    for n in range(1, 61):
        stages.add(n, title="a", price=n)
    with (tmp_path / "log").open("wb") as output:
        settings = {
            "path": HERE,
            "output": output,
            "environment": {"ADDRESS": service.address},
            "lease": 1.0,
            "poll": 0.1,
        }
        with WorkerProcess("worker_app:app", stages.url, die_at=step, **settings) as victim:
            await asyncio.to_thread(victim.wait_dead, 60)
        with WorkerProcess("worker_app:app", stages.url, **settings):
            await wait_until(lambda: ranked(stages) == 60, 90)
            await wait_until(lambda: stages.value(UNHEARD) == 0, 60)
    assert stages.value(TWICE) == 0  # every save once, whatever was called twice
    heard = {line.split()[1] for line in service.lines("heard")}
    assert heard == {str(n) for n in range(1, 61)}


@pytest.mark.parametrize("after", ["Describe", "Process", "Saved", "heard"])
async def test_a_service_killed_in_each_of_its_calls_loses_nothing(
    stages: Stages, service: Service, after: str
) -> None:
    """S10, S7: killed once in each call; what was saved is heard at least once, in order."""
    declare(stages, service.address, ask=False, saved=True)
    await stages.install()
    for n in range(1, 41):
        stages.add(n, title="a", price=n)
    async with stages.working() as worker:
        await service.until(lambda: service.count(after) > 0)
        service.kill()
        await wait_until(lambda: endpoint_of(worker).is_away or ranked(stages) == 40, 60)
        service.start()
        await wait_until(lambda: ranked(stages) == 40, 90)
        await wait_until(lambda: stages.value(UNHEARD) == 0, 60)
        await stages.rest(worker)
    assert stages.value(TWICE) == 0
    assert tried(stages) == 0
    # Whoever was killed had perhaps said half a line.
    heard = [words for line in service.lines("heard") if len(words := line.split()) > 2]
    assert {id for _, id, *_ in heard} == {str(n) for n in range(1, 41)}


async def test_the_database_s_connections_end_while_calls_are_under_way(
    stages: Stages, service: Service
) -> None:
    """S10: what was answered meanwhile is saved once."""
    declare(stages, service.address, ask=False)
    await stages.install()
    for n in range(1, 201):
        stages.add(n, title="a", price=n)
    async with stages.working():
        await service.until(lambda: service.count("Process") > 0)
        stages.query(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() and application_name <> ''"
        )
        await wait_until(lambda: ranked(stages) == 200, 90)
    assert stages.value(TWICE) == 0
