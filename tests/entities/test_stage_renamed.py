"""A stage with a new name: what waits for it, what it remembers and what it has yet to send go with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import Saved, Untouched, Update
from mainspring.errors import InvalidStage
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import wait_until
from stages import Stages


async def test_a_renamed_stage_keeps_its_entries_states_and_timers(stages: Stages) -> None:
    """S26: `was=` takes over visits and states; the stage is not new, so nothing is crawled."""
    kind = stages.kind()

    @kind.stage(name="old")
    async def old(listing: dict[str, Any], state: int | None) -> Untouched:
        return Untouched(state=listing["hits"], visit_in=timedelta(days=30))

    await stages.install()
    stages.add(1, hits=7)
    stages.add(2, hits=8)
    await stages.run()
    timer = stages.visit("listing/old", 1)
    assert timer is not None
    stages.change(2, hits=9)  # waits for the next release

    async with stages.next_release():
        kind = stages.kind()
        seen = {}

        @kind.stage(name="new", was=["old"])
        async def new(listing: dict[str, Any], state: int | None) -> Untouched:
            seen[listing["id"]] = state
            return Untouched(visit_in=timedelta(days=1))

        await stages.install()
        kept = stages.visit("listing/new", 1)
        await stages.run()

    assert kept is not None
    assert (kept["due_at"], kept["id"]) == (timer["due_at"], timer["id"])
    assert seen == {2: 8}  # the first has only its timer
    assert stages.visit("listing/old", 1) is None
    assert stages.state("new", 1)["body"] == 7  # type: ignore[index]
    assert stages.state("old", 1) is None
    assert stages.query("select name from mainspring.stage") == [{"name": "new"}]
    assert (
        stages.query("select 1 from mainspring.visit where queue like 'mainspring.crawl%%'") == []
    )


async def test_what_is_parked_and_what_is_not_delivered_goes_with_the_stage(stages: Stages) -> None:
    """S26, S7: a parked entry stays parked with its error; events reach the hook under its new name."""
    kind = stages.kind()
    once = RetryPolicy(attempts=1)

    class Old:
        async def process(self, listing: dict[str, Any]) -> Update:
            if listing["id"] == 2:
                raise ValueError("not this one")
            return Update(note="seen")

        async def saved(self, event: Saved) -> None:
            raise RuntimeError("nobody is there")

    kind.stage(name="old", retry=once)(Old)
    await stages.install()
    stages.add(1)
    stages.add(2)
    await stages.run()
    assert stages.queues(1) == ["listing!old"]

    async with stages.next_release():
        kind = stages.kind()
        got = []

        class New(Old):
            async def saved(self, event: Saved) -> None:
                got.append((event.id, event.stage))

        kind.stage(name="new", was=["old"], retry=once)(New)
        await stages.install()
        stages.query("update mainspring.visit set parked_at = null where queue = 'listing!new'")
        await stages.run()

    assert got == [(1, "old")]
    parked = stages.visit("listing/new", 2)
    assert parked is not None
    assert parked["parked_at"] is not None
    assert "not this one" in parked["error"]
    assert stages.query("select name from mainspring.consumer") == [{"name": "new"}]


async def test_what_comes_from_a_former_name_is_an_offer_to_a_parked_entry(stages: Stages) -> None:
    """S26: it is parked under the new name already; whoever frees it is told that more has come."""
    kind = stages.kind()

    async def fail(listing: dict[str, Any]) -> Untouched:
        raise ValueError("not yet")

    for name in ("old", "new"):
        kind.stage(name=name, retry=RetryPolicy(attempts=1))(fail)
    await stages.install()
    stages.add(1)
    await stages.run()
    before = stages.visit("listing/new", 1)
    assert before is not None
    assert (before["parked_at"] is not None, before["offered_while_parked"]) == (True, False)

    stages.query("select mainspring.take_over_stage('listing', 'old', 'new')")

    after = stages.visit("listing/new", 1)
    assert after is not None
    assert (after["parked_at"], after["offered_while_parked"]) == (before["parked_at"], True)
    assert after["version"] != before["version"]
    assert stages.visit("listing/old", 1) is None


async def test_a_worker_of_the_old_code_passes_its_visits_on(stages: Stages) -> None:
    """S26: during a rolling deploy it runs nothing under the former name, where the state is gone."""
    kind = stages.kind()
    ran = []

    @kind.stage(name="old")
    async def old(listing: dict[str, Any], state: int | None) -> Untouched:
        ran.append(state)
        return Untouched(state=1)

    await stages.install()
    stages.add(1)
    await stages.run()
    assert ran == [None]

    async with stages.working() as worker:
        stages.query("select mainspring.take_over_stage('listing', 'old', 'new')")
        stages.query("update mainspring.stage set was = array['old']")
        stages.offer("listing/old", 1, {"out": 1})
        await wait_until(lambda: stages.visit("listing/new") is not None)
        await stages.rest(worker)

    assert ran == [None]
    assert stages.visit("listing/old") is None
    assert stages.state("new")["body"] == 1  # type: ignore[index]


async def test_a_worker_that_has_not_heard_of_the_new_name_saves_nothing_under_the_old_one(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S26: its knowledge of the catalogue may be a second old; what it saves is checked against today's."""
    monkeypatch.setattr("mainspring.entities.declare.catalogue.FRESH_SECONDS", 60.0)
    kind = stages.kind()

    @kind.stage(name="old")
    async def old(listing: dict[str, Any], state: int | None) -> Update:
        return Update(hits=listing["hits"] + 1, state=(state or 0) + 1)

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await stages.rest(worker)
        stages.query("select mainspring.take_over_stage('listing', 'old', 'new')")
        stages.query("update mainspring.stage set was = array['old']")

        stages.offer("listing/old", 1, {"out": 1})
        await wait_until(lambda: stages.visit("listing/new") is not None)
        await stages.rest(worker)

    assert stages.listing()["hits"] == 1
    assert stages.state("old") is None
    assert stages.state("new")["body"] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"name": "a"}, {"name": "b", "was": ["a"]}, "names 'a', which is or was stage 'a'"),
        ({"name": "a", "was": ["b"]}, {"name": "b"}, "so was= of stage 'a' cannot name it"),
        ({"name": "a", "was": ["c"]}, {"name": "b", "was": ["c"]}, "is or was stage 'a'"),
        ({"name": "a"}, {"name": "b", "was": ["b"]}, "is or was stage 'b'"),
        ({"name": "a"}, {"name": "b", "was": ["x/y"]}, "printable bytes without"),
    ],
)
async def test_a_former_name_belongs_to_one_stage(
    stages: Stages, first: dict[str, Any], second: dict[str, Any], said: str
) -> None:
    kind = stages.kind()

    async def process(listing: dict[str, Any]) -> Untouched:
        return Untouched()

    async def other(listing: dict[str, Any]) -> Untouched:
        return Untouched()

    kind.stage(**first)(process)

    with pytest.raises(InvalidStage, match=said):
        kind.stage(**second)(other)
