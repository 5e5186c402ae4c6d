"""Sinks that take the events of many entities in one call (S7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from outbox import Outbox
from test_relay import Box, box_kind, parked, relaying

from mainspring import RetryPolicy, Saved
from mainspring.endpoint import Endpoint
from mainspring.entities.declare.consumer import Consumer
from mainspring.entities.outbox.send import HandOver
from mainspring.errors import EndpointAway
from mainspring.testing import wait_until
from sinks.test_record import event as event_of

QUICK = RetryPolicy(attempts=3, first=0.01, most=0.01)


class Many:
    """Notes the calls that it gets; `refused` and `away` say what it does."""

    most = 10
    calls = 2

    def __init__(self) -> None:
        self.got: list[list[list[Saved]]] = []
        self.at_once = self.most_at_once = 0
        self.refused: set[int] = set()  # numbers of events
        self.away = False
        self.wrong: list[tuple[int, Exception | None]] | None = None

    async def send_many(self, groups: list[list[Saved]]) -> Sequence[tuple[int, Exception | None]]:
        if self.away:
            raise EndpointAway("nobody there")
        self.got.append(groups)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        if self.wrong is not None:
            return self.wrong
        return [self._answer(group) for group in groups]

    def _answer(self, group: list[Saved]) -> tuple[int, Exception | None]:
        for taken, event in enumerate(group):
            if event.number in self.refused:
                return taken, ValueError("no")
        return len(group), None

    def numbers(self, id: int) -> list[int]:
        return [e.number for call in self.got for group in call for e in group if e.id == id]


async def test_who_comes_just_as_the_last_call_ends_is_sent_too():
    """S7: nobody is at work any more then, and nobody else might come for long."""
    many = Many()
    many.calls = 1
    hand_over = HandOver(Consumer("box", "many", target=many), None)
    async with asyncio.timeout(10):
        for number in range(3):  # each the moment that the one before has its answer
            assert (await hand_over.send([event_of(number=number)])).taken == 1
    await hand_over.close()


async def test_entities_at_hand_together_go_in_one_call(mainspring_url):
    """S7: at most `most` entities a call and `calls` calls; of each entity all that waits, in order."""
    kind, many = box_kind(mainspring_url), Many()
    kind.sink("many", many)
    outbox = Outbox(mainspring_url, sinks=("many",))
    numbers = {key: [outbox.save(str(key)) for _ in range(3)] for key in range(1, 41)}
    async with relaying(mainspring_url, kind, concurrency=40):
        await wait_until(lambda: outbox.left == (0, 0, 0), 20)
    assert {key: many.numbers(key) for key in numbers} == numbers
    assert max(len(call) for call in many.got) > 1
    assert max(len(call) for call in many.got) <= 10
    assert many.most_at_once <= 2
    assert isinstance(many.got[0][0][0].entity, Box)


async def test_what_stops_one_entity_stops_no_other(mainspring_url):
    """S7: what was taken is gone; the refused event parks its entity, with what is behind it."""
    kind, many = box_kind(mainspring_url), Many()
    kind.sink("many", many, retry=QUICK)
    outbox = Outbox(mainspring_url, sinks=("many",))
    numbers = {key: [outbox.save(str(key)) for _ in range(3)] for key in range(1, 6)}
    many.refused = {numbers[2][1]}
    async with relaying(mainspring_url, kind):
        await wait_until(lambda: parked(outbox), 20)
        await wait_until(lambda: outbox.left == (2, 2, 1))
    [(queue, key, error)] = parked(outbox)
    assert (queue, key) == ("box!many", "2")
    assert "no" in error


async def test_a_target_that_is_away_is_waited_for_by_its_own_endpoint(mainspring_url):
    """S7, S10: a target may share an endpoint with others; nothing is counted."""

    async def probe() -> None:
        if many.away:
            raise EndpointAway("nobody there")

    kind, many = box_kind(mainspring_url), Many()
    many.endpoint = Endpoint("photos", probe)  # type: ignore[attr-defined]
    many.away = True
    kind.sink("many", many)
    outbox = Outbox(mainspring_url, sinks=("many",))
    outbox.save("1")
    async with relaying(mainspring_url, kind):
        await wait_until(lambda: many.endpoint.is_away, 20)  # type: ignore[attr-defined]
        many.away = False
        await wait_until(lambda: outbox.left == (0, 0, 0), 20)
    await many.endpoint.close()  # type: ignore[attr-defined]
    failed = "select 1 from mainspring.history where outcome <> 'done'"
    assert outbox.query(failed) == []


async def test_an_answer_that_makes_no_sense_fails_and_says_so(mainspring_url):
    kind, many = box_kind(mainspring_url), Many()
    kind.sink("many", many, retry=RetryPolicy(attempts=1))
    outbox = Outbox(mainspring_url, sinks=("many",))
    outbox.save("1")
    many.wrong = [(7, None)]
    async with relaying(mainspring_url, kind):
        await wait_until(lambda: parked(outbox), 20)
    assert "send_many said that 7 of 1 events were taken" in parked(outbox)[0][2]
    many.wrong = []
    outbox.query("update mainspring.visit set parked_at = null, attempt = 0")
    async with relaying(mainspring_url, kind):
        await wait_until(lambda: parked(outbox), 20)
    assert "must answer for each of 1 entities, got 0" in parked(outbox)[0][2]
