"""A stage whose timers lie in the past: it rests, it is named, and a change is seen at once."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Untouched, Update, now
from mainspring.testing import wait_until
from stages import Stages


def error(stages: Stages) -> str:
    visit = stages.visit("listing/late")
    return str(visit and visit["error"])


@pytest.mark.parametrize("answer", ["at", "in", "with its state"])
async def test_a_timer_in_the_past_does_not_spin(
    stages: Stages, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S9, S16: "again now" is a stage's good right, some times in a row."""
    listing, runs = stages.kind(), [0]

    @listing.stage(interest=["price"], state=int)
    async def late(found: dict[str, Any], state: int | None) -> Untouched:
        runs[0] += 1
        if found["price"] == 7:
            return Untouched()
        if answer == "in":
            return Untouched(visit_in=0)
        if answer == "at":
            return Untouched(visit_at=now() - timedelta(days=1))
        return Untouched(visit_at=now() - timedelta(days=1), state=(state or 0) + 1)

    await stages.install()
    stages.add(1)
    with caplog.at_level(logging.WARNING, logger="mainspring"):
        async with stages.working():
            await wait_until(lambda: "put off for 2 s" in error(stages), 30)
            seen = runs[0]
            findings = [f for f in await stages.app.operator.doctor() if f.name == "restless"]
            stages.change(price=7)
            await wait_until(lambda: stages.queues() == [])

    assert seen == 5, "three times again at once, then after a second"
    assert [r.msg for r in caplog.records if "restless" in r.msg] == ["stage.restless"]
    [finding] = findings
    assert finding.text == (
        "stage 'late' of kind 'listing' asks again and again to be visited at once, for 1 entities "
        "('1' is one); their visits are put off"
    )


@pytest.mark.parametrize("hops", ['"x"', "1e30", "null", "[7]"])
async def test_a_payload_that_is_nobody_s_does_not_end_the_report(
    stages: Stages, hops: str
) -> None:
    """S16: a stranger's insert may have anything where the loop guard keeps its count."""
    listing = stages.kind()
    listing.stage(lambda found: Untouched(), name="late")
    await stages.install()
    stages.add(1)
    await listing.offer(1, stage="late", at=now() + timedelta(seconds=20))
    payload = f'{{"chain": {{"hops": {hops}}}}}'
    stages.query("update mainspring.visit set payload = %s where queue = 'listing/late'", payload)

    findings = await stages.app.operator.doctor()

    assert len([f for f in findings if f.name == "restless"]) == (hops in ("1e30", "[7]"))


async def test_a_stage_may_ask_for_the_next_visit_at_once_while_it_gets_on(stages: Stages) -> None:
    """S16: each save begins the row anew, so work in many small steps takes no rest."""
    listing = stages.kind()

    @listing.stage(reads=["price"], writes=["price"])
    async def count(found: dict[str, Any]) -> Untouched | Update:
        return Update(price=found["price"] + 1, visit_in=0) if found["price"] < 6 else Untouched()

    await stages.install()
    stages.add(1, price=0)
    await stages.run()

    assert stages.listing()["price"] == 6
    assert "restless" not in str(stages.history("listing/count"))
