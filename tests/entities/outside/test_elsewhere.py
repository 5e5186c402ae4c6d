"""The seams for stages that live elsewhere: a catalogue in the database, states by compare-and-set."""

from __future__ import annotations

from typing import Any

from mainspring import Mainspring, Untouched, Update
from mainspring.testing import run_until_idle


async def test_a_stage_of_another_service_is_queued_unasked_and_waits_for_it(stages):
    """S10, S26: this worker's code does not know it; whoever does will look."""
    kind = stages.kind()
    kind.stage(lambda entity: Untouched(), name="Ours")
    await stages.install()
    stages.query("insert into mainspring.stage (kind, name) values ('listing', 'Theirs')")
    stages.add(1)

    await stages.run()

    assert stages.queues() == ["listing/Theirs"]
    status = await stages.app.operator.status()
    assert [queue.name for queue in status.unserved] == ["listing/Theirs"]

    async with Mainspring(stages.url) as service:
        other = service.entities("listing", table="public.listing")

        @other.stage(name="Theirs", writes=["note"])
        async def theirs(entity: Any) -> Update:
            return Update(note="seen")

        await run_until_idle(service)

    assert stages.listing()["note"] == "seen"
    assert stages.queues() == ["listing/Ours"]  # of their save: this code did not know ours
    await stages.run()
    assert stages.queues() == []


async def test_an_outsider_reads_and_replaces_a_state_without_the_stage_s_code(stages):
    """S11: answered yes or no; the stage is asked again."""
    kind, seen = stages.kind(), []

    class Note:
        def should_process(self, entity: Any, state: Any) -> bool:
            seen.append(state)
            return False

        def process(self, entity: Any, state: Any) -> Untouched:
            return Untouched()

    kind.stage(name="Note", state=int)(Note())
    await stages.install()
    stages.add(1)
    await stages.run()

    value, version = await kind.state("Note", 1)
    answers = [await kind.set_state("Note", 1, n, version) for n in (7, 8)]
    await stages.run()

    assert (value, version) == (None, 0)
    assert answers == [True, False]
    assert seen == [None, 7]
    assert (await kind.state("Note", 1))[0] == 7
