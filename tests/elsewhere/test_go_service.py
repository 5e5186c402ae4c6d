"""A stage in Go: grpc-go's server and its health service (S10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from go_program import go_command
from services import Service
from test_remote_away import endpoint_of, ranked, tried
from test_remote_stage import declare

from mainspring.testing import wait_until
from stages import Stages

pytestmark = pytest.mark.timeout(400)  # it is built once


@pytest.fixture
def service() -> Iterator[Service]:
    command, why = go_command()
    if command is None:
        pytest.skip(f"a stage in Go: {why}")
    found = Service(command)
    found.start()
    yield found
    found.end()


async def test_a_stage_in_go_is_a_stage_as_any_other(stages: Stages, service: Service) -> None:
    """S10: asked, processed in batches, told of what was saved."""
    declare(stages, service.address, saved=True)
    await stages.install()
    for n in range(1, 41):
        stages.add(n, title="unwanted" if n == 40 else "a", price=n)
    async with stages.working() as worker:
        await wait_until(lambda: service.count("heard") == 39, 60)
        await stages.rest(worker)
    assert ranked(stages) == 39
    assert not any("40" in call for call in service.ids())
    assert tried(stages) == 0


async def test_a_panic_ends_the_process_and_parks_the_one_entity(
    stages: Stages, service: Service
) -> None:
    """S10: poison, in a service that a panic ends."""
    declare(stages, service.address, ask=False, crash_limit=1)
    await stages.install()
    service.keep_up()
    for n in range(1, 41):
        stages.add(n, title="panic" if n == 7 else "a", price=n)
    async with stages.working() as worker:
        await wait_until(lambda: ranked(stages) == 39, 100)
        await wait_until(lambda: (stages.visit("listing/rank", 7) or {}).get("parked_at"), 60)
        await stages.rest(worker)
        assert endpoint_of(worker) is not None
    parked = stages.query("select key, crashes from mainspring.visit where parked_at is not null")
    assert parked == [{"key": "7", "crashes": 1}]
