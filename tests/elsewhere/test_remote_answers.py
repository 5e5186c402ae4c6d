"""What a service answers: a bad answer is the failure of its entity alone, and is named (S10)."""

from __future__ import annotations

import pytest
from listing_message import Listing
from services import Service
from test_remote_stage import READS, declare

from mainspring.testing import wait_until
from stages import Stages

BAD = {
    "missing": "InvalidAnswer: stage 'rank' elsewhere: the service said nothing about this entity",
    "twice": "InvalidAnswer: stage 'rank' elsewhere: the service answered twice about this entity",
    "unknown id": "the service said nothing about this entity, and answered about 'nobody'",
    "unset": "the outcome says neither untouched nor update nor problem",
    "no change": "the update has neither patch nor entity",
    "nul": "the update has a NUL, which the database cannot hold",
    "surrogate": "the update is no JSON that can be read",
    "no json": "the update is no JSON that can be read",
    "no object": "the update is no JSON that can be read",
    "state nul": "the state has a NUL, which the database cannot hold",
    "state unset": "the state has neither json nor message: leave body out to empty it",
    "far away": "visit_at is no time",
    "undeclared": "UndeclaredField: stage 'rank' changes 'note', which it does not declare",
    "fail": "StageFailed: stage 'rank' elsewhere said ValueError: it does not fit",
}


async def test_a_bad_answer_fails_its_entity_alone(stages: Stages, service: Service) -> None:
    """S10: missing, twice, unknown, unset, undeclared, NUL and half characters: each named."""
    declare(stages, service.address, ask=False)
    await stages.install()
    for n, title in enumerate(BAD, 1):
        stages.add(n, title=title, price=n)
        stages.add(100 + n, title="good", price=n)
    async with stages.working() as worker:
        await wait_until(
            lambda: (
                stages.value("select count(*) from listing where id > 100 and rank = 2 * price")
                == len(BAD)
            ),
            60,
        )
        await wait_until(
            lambda: (
                stages.value("select count(*) from mainspring.visit where attempt > 0") == len(BAD)
            ),
            60,
        )
        del worker
    for n, (title, text) in enumerate(BAD.items(), 1):
        assert text in stages.visit("listing/rank", n)["error"], title
        assert stages.listing(n)["rank"] == 0, title
    good = stages.query(
        "select * from mainspring.history "
        "where queue = 'listing/rank' and outcome = 'retry' and key::int > 100"
    )
    assert good == []


async def test_a_problem_says_what_becomes_of_its_entity(stages: Stages, service: Service) -> None:
    """S10: final parks; retry_after puts off without an attempt."""
    declare(stages, service.address, ask=False)
    await stages.install()
    stages.add(1, title="final")
    stages.add(2, title="later")
    await stages.run()
    final, later = (stages.visit("listing/rank", n) for n in (1, 2))
    assert final["parked_at"] is not None
    assert final["error"] == "StageFailed: stage 'rank' elsewhere said broken: never"
    assert (later["attempt"], later["parked_at"]) == (0, None)
    assert later["error"] == "stage 'rank' elsewhere said busy: not now"
    assert stages.value(
        "select due_at > mainspring.now() + interval '50 minutes' from mainspring.visit where key = '2'"
    )


async def test_an_answer_that_is_too_large_is_its_entity_s_own(
    stages: Stages, service: Service
) -> None:
    """S10: our own refusal of a large answer is halved, then parks the one."""
    declare(stages, service.address, ask=False)
    await stages.install()
    for n in range(1, 9):
        stages.add(n, title="large answer" if n == 3 else "a", price=n)
    await stages.run()
    assert stages.visit("listing/rank", 3)["parked_at"] is not None
    assert "larger than max" in stages.visit("listing/rank", 3)["error"]
    assert [stages.listing(n)["rank"] for n in range(1, 9) if n != 3] == [2, 4, 8, 10, 12, 14, 16]


async def test_an_entity_that_is_too_large_is_parked_with_a_hint(stages: Stages) -> None:
    """S10: an item that exceeds max_bytes alone."""
    service = Service(MAX_BYTES="2000")
    service.start()
    try:
        declare(stages, service.address, ask=False)
        await stages.install()
        stages.add(1, title=3000 * "x", price=1)
        stages.add(2, title=1500 * "x", price=2)
        stages.add(3, title=1500 * "x", price=3)
        await stages.run()
    finally:
        service.end()
    parked = stages.visit("listing/rank", 1)
    assert parked["parked_at"] is not None
    assert (
        "leave out of reads= what the stage can do without (now: id, title, price)"
        in parked["error"]
    )
    assert sorted(service.ids()) == [["2"], ["3"]]  # together they are too large for a call
    assert (stages.listing(2)["rank"], stages.listing(3)["rank"]) == (4, 6)


async def test_state_passes_undecoded_with_its_schema(stages: Stages, service: Service) -> None:
    """S10: JSON of whatever schema, a message with its type, and nothing."""
    declare(stages, service.address, ask=False)
    await stages.install()
    stages.add(1, title="a", price=1)
    stages.add(2, title="message", price=1)
    async with stages.working() as worker:
        await stages.rest(worker)
        assert stages.state("rank", 1)["schema"] == 3
        assert (
            stages.state("rank", 2)["message_type"] == "type.googleapis.com/google.protobuf.Struct"
        )
        stages.change(1, title="schema")
        stages.change(2, title="empty the state")
        await stages.rest(worker)
    assert stages.listing(1)["rank"] == 3  # the schema came back as it was written
    assert stages.state("rank", 2)["message"] is None


async def test_only_the_declared_fields_leave_and_a_service_may_need_less(stages: Stages) -> None:
    """S10: reads are the upper bound; Describe narrows them."""
    service = Service(READS="title")
    service.start()
    try:
        declare(stages, service.address, ask=False)
        await stages.install()
        stages.add(1, title="fields", note="secret")
        await stages.run()
    finally:
        service.end()
    assert stages.state("rank")["body"] == {"crawl": False, "fields": ["title"]}


async def test_a_service_that_needs_more_than_is_declared_closes_its_gate(stages: Stages) -> None:
    """S10: the contract; nothing is sent, and the reason is told."""
    service = Service(READS="title note")
    service.start()
    try:
        declare(stages, service.address, ask=False)
        await stages.install()
        stages.add(1, title="a", price=3)
        async with stages.working() as worker:
            endpoint = worker.buffer.queues["listing/rank"].settings.endpoint
            await wait_until(lambda: endpoint.is_away, 30)
            assert endpoint.reason.startswith(
                "contract: the service reads note, which stage 'rank' does not"
            )
    finally:
        service.end()
    assert service.count("Process") == 0
    assert stages.visit("listing/rank")["attempt"] == 0


@pytest.mark.parametrize("title", ["ask slowly", "ask badly", "ask and die"])
async def test_what_cannot_be_answered_is_offered_unasked(
    stages: Stages, service: Service, title: str
) -> None:
    """S7, S10: fail-open; the cause stands in the visit's result."""
    declare(stages, service.address, budget=2.0)
    await stages.install()
    service.keep_up()
    stages.add(1, title=title, price=3)
    async with stages.working() as worker:
        await wait_until(lambda: stages.listing()["rank"] == 6, 60)
        await stages.rest(worker)
    said = stages.history("listing")[0]["result"]["asked"]["rank"]
    assert said.startswith(
        {
            "ask slowly": "overrun",
            "ask badly": "failed: ValueError",
            "ask and die": "failed: UNAVAILABLE",
        }[title]
    )


async def test_a_stage_is_asked_here_or_not_at_all(stages: Stages, service: Service) -> None:
    """S10: ask=function is asked in the worker, ask=False always offers."""
    kind = declare(stages, service.address, ask=lambda entity: entity["price"] > 5)
    await stages.install()
    stages.add(1, title="a", price=3)
    stages.add(2, title="a", price=8)
    await stages.run()
    assert (stages.listing(1)["rank"], stages.listing(2)["rank"]) == (0, 16)
    assert service.count("ShouldProcess") == 0
    assert kind.stages["rank"].settings.reads == tuple(READS)


async def test_stages_of_one_visit_are_asked_side_by_side(stages: Stages) -> None:
    """S10: budgets do not add up: five stages that do not answer cost one of them."""
    service = Service(STAGES="a b c d e")
    service.start()
    try:
        kind = stages.kind()
        for name in "abcde":
            kind.remote_stage(name, service.address, reads=["id", "title", "price"], budget=3.0)
        await stages.install()
        stages.add(1, title="ask slowly")
        async with stages.working():
            await service.until(
                lambda: service.count("ShouldProcess") == 5
            )  # before any had its time
            await wait_until(lambda: stages.history("listing"), 60)
    finally:
        service.end()
    run = stages.history("listing")[0]
    assert set(run["result"]["asked"].values()) == {"overrun"}


async def test_an_entity_may_be_sent_as_a_message_and_come_back_with_a_mask(
    stages: Stages,
) -> None:
    """S10: entity=Message; only what the mask names is saved."""
    service = Service()
    service.start()
    try:
        kind = stages.kind()
        given = {"reads": ["id", "title", "price"], "ask": False, "entity": Listing}
        kind.remote_stage("message", service.address, writes=["rank"], **given)
        await stages.install()
        stages.add(1, title="a", price=1 << 30)
        stages.add(2, title="of another type", price=2)
        stages.add(3, title="unmasked", price=3)
        await stages.run()
    finally:
        service.end()
    assert stages.listing(1)["rank"] == (1 << 30) + 1  # 64 bits, as a number
    assert stages.listing(1)["price"] == 1 << 30  # it came back changed too, and is not in the mask
    for n, text in (
        (2, "the update has a google.protobuf.Struct, not a shop.Listing"),
        (3, "no mask"),
    ):
        assert text in stages.visit("listing/message", n)["error"]
