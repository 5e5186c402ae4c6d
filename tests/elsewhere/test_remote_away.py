"""A service that is away, breaks, hangs or is overloaded: who is blamed, and what is put off (S10)."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from typing import Any

import pytest
from services import Service
from test_remote_stage import declare

from mainspring import Untouched
from mainspring.entities.remote import peer
from mainspring.testing import wait_until
from stages import Stages
from tcp_proxy import tcp_proxy

NEVER_TRIED = "attempt = 0 and crashes = 0 and parked_at is null"


def tried(stages: Stages) -> int:
    """Visits of the stage that were counted against, in any way."""
    return int(
        stages.value(
            "select count(*) from mainspring.visit "
            f"where queue like 'listing/rank%%' and not ({NEVER_TRIED})"
        )
    )


def ranked(stages: Stages) -> int:
    return int(stages.value("select count(*) from listing where rank = 2 * price and price > 0"))


async def test_while_the_service_is_down_nothing_is_counted_and_nothing_is_tried(
    stages: Stages, service: Service
) -> None:
    """S10: away is one fact about the service. Many due entities, no attempts, and all done after."""
    declare(stages, service.address, ask=False)
    await stages.install()
    service.kill()
    stages.query(
        "insert into listing (id, title, price) select n, 'a', n from generate_series(1, 1000) n"
    )
    async with stages.working() as worker:
        endpoint = endpoint_of(worker)
        await wait_until(lambda: endpoint.is_away, 30)
        await wait_until(lambda: waiting(stages) == 1000, 60)
        await wait_until(lambda: not worker.owned.snapshot(), 30)
        in_hand = put_off(stages)
        assert in_hand <= 130  # what was in hand when the gate closed: the slots of both lanes
        assert tried(stages) == 0
        for _ in range(3):  # further trials settle nothing
            trial = next_trial(endpoint)
            await wait_until(lambda trial=trial: endpoint._rest > trial, 30)
        assert put_off(stages) == in_hand
        service.start()
        await wait_until(lambda: ranked(stages) == 1000, 90)
        await stages.rest(worker)
    assert tried(stages) == 0
    assert stages.value("select count(*) from mainspring.visit where queue = 'listing/rank'") == 0
    assert max(map(len, service.ids())) <= 20


def endpoint_of(worker: Any, queue: str = "listing/rank") -> Any:
    return worker.buffer.queues[queue].settings.endpoint


def next_trial(endpoint: Any) -> float:
    """The pause before the next trial: it grows with each that fails."""
    return float(endpoint._rest)


def waiting(stages: Stages) -> int:
    return int(stages.value("select count(*) from mainspring.visit where queue = 'listing/rank'"))


def put_off(stages: Stages) -> int:
    return int(
        stages.value(
            "select count(*) from mainspring.visit where queue = 'listing/rank' and error is not null"
        )
    )


async def test_the_one_entity_that_kills_the_service_is_parked_and_the_others_are_done(
    stages: Stages, service: Service
) -> None:
    """S10: suspects go alone; who breaks the service alone is counted, and parks."""
    declare(stages, service.address, ask=False, crash_limit=2)
    await stages.install()
    stages.query(
        "insert into listing (id, title, price) select n, case n when 57 then 'poison' else 'a' end, n "
        "from generate_series(1, 200) n"
    )
    service.keep_up()
    async with stages.working() as worker:
        await wait_until(lambda: ranked(stages) == 199, 110)
        await wait_until(lambda: (stages.visit("listing/rank", 57) or {}).get("parked_at"), 60)
        await stages.rest(worker)
    assert service.count("dies") == 3  # with others, and twice alone
    assert [call for call in service.ids() if "57" in call][1:] == [["57"], ["57"]]
    assert stages.visit("listing/rank", 57)["crashes"] == 2
    parked = stages.query("select key from mainspring.visit where parked_at is not null")
    assert [row["key"] for row in parked] == ["57"]


async def test_two_workers_park_the_poison_and_no_innocent(
    stages: Stages, service: Service
) -> None:
    """S10: crashes stand in the row, so that each worker knows who is to go alone."""
    declare(stages, service.address, ask=False)
    await stages.install()
    stages.query(
        "insert into listing (id, title, price) "
        "select n, case n when 57 then 'poison' else 'a' end, n from generate_series(1, 120) n"
    )
    service.keep_up()
    async with stages.working() as one, stages.working() as other:
        await wait_until(lambda: ranked(stages) == 119, 110)
        await wait_until(lambda: (stages.visit("listing/rank", 57) or {}).get("parked_at"), 90)
        await stages.rest(one)
        await stages.rest(other)
    parked = stages.query("select key, crashes from mainspring.visit where parked_at is not null")
    assert parked == [{"key": "57", "crashes": 3}]


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_ten_thousand_wait_for_a_service_that_is_down_for_a_minute(
    stages: Stages, service: Service
) -> None:
    """S10: the long form: no attempt, no settle past the first second, all done after."""
    declare(stages, service.address, ask=False)
    await stages.install()
    service.kill()
    stages.query(
        "insert into listing (id, title, price) select n, 'a', n from generate_series(1, 10000) n"
    )
    async with stages.working() as worker:
        await wait_until(lambda: endpoint_of(worker).is_away, 30)
        await wait_until(lambda: waiting(stages) == 10_000 and not worker.owned.snapshot(), 120)
        in_hand = put_off(stages)
        away_since = endpoint_of(worker).away_since
        await wait_until(lambda: (datetime.now(UTC) - away_since).total_seconds() > 60, 90)
        assert (put_off(stages), tried(stages)) == (in_hand, 0)
        service.start()
        await wait_until(lambda: ranked(stages) == 10_000, 300)
        await stages.rest(worker)
    assert tried(stages) == 0


async def test_who_fails_a_call_is_found_by_halves_and_no_other_has_an_attempt(
    stages: Stages, service: Service
) -> None:
    """S10: an error of a call is one entity's own when it fails alone."""
    declare(stages, service.address, ask=False)
    await stages.install()
    stages.query(
        "insert into listing (id, title, price) select n, case n when 7 then 'INTERNAL' else 'a' end, n "
        "from generate_series(1, 20) n"
    )
    async with stages.working() as worker:
        await wait_until(lambda: ranked(stages) == 19, 60)
        await wait_until(lambda: (stages.visit("listing/rank", 7) or {}).get("attempt"), 30)
        await stages.rest(worker)
    failed = stages.query(
        "select key from mainspring.history where queue = 'listing/rank' and outcome <> 'done'"
    )
    assert {row["key"] for row in failed} == {"7"}
    assert "because of 7" in stages.visit("listing/rank", 7)["error"]


async def test_a_service_that_says_it_is_away_parks_nobody(
    stages: Stages, service: Service
) -> None:
    """S10: what a service says of itself is no entity's fault while it says it of all."""
    declare(stages, service.address, ask=False, crash_limit=1)
    await stages.install()
    stages.query(
        "insert into listing (id, title, price) select n, 'UNAVAILABLE', n from generate_series(1, 5) n"
    )
    async with stages.working() as worker:
        await service.until(lambda: service.count("Process") >= 4)
        endpoint = endpoint_of(worker)
        await wait_until(lambda: endpoint.is_away, 30)
        assert "because of" in endpoint.reason
    assert tried(stages) == 0


async def test_an_overloaded_service_is_left_alone(stages: Stages, service: Service) -> None:
    """S10: RESOURCE_EXHAUSTED of the peer is no attempt."""
    declare(stages, service.address, ask=False)
    await stages.install()
    stages.add(1, title="RESOURCE_EXHAUSTED", price=1)
    async with stages.working() as worker:
        endpoint = endpoint_of(worker)
        await wait_until(lambda: endpoint.is_away, 30)
        assert endpoint.reason.startswith("overloaded: ")
        stages.change(title="a")
        await wait_until(lambda: ranked(stages) == 1, 60)
        await stages.rest(worker)
    assert tried(stages) == 0


async def test_a_service_that_hangs_closes_its_gate_and_takes_nothing_from_others(
    stages: Stages, service: Service
) -> None:
    """S10: after five deadlines in a row the gate closes; other stages have their slots all the while."""
    kind = declare(stages, service.address, ask=False, timeout=1.0, reads=["id", "title", "price"])
    done: list[int] = []

    @kind.stage(reads=["id"], writes=[])
    async def local(entity: Any) -> Any:
        done.append(entity["id"])
        return Untouched()

    await stages.install()
    service.signal(signal.SIGSTOP)
    stages.query(
        "insert into listing (id, title, price) select n, 'a', n from generate_series(1, 100) n"
    )
    async with stages.working(concurrency=4) as worker:
        await wait_until(
            lambda: len(done) >= 100, 60
        )  # the hanging service has 100 in hand meanwhile
        endpoint = endpoint_of(worker)
        await wait_until(lambda: endpoint.is_away, 60)
        assert ranked(stages) == 0
        assert "hangs" in endpoint.reason or "connection" in endpoint.reason
        service.signal(signal.SIGCONT)
        await wait_until(lambda: ranked(stages) == 100, 90)
        await stages.rest(worker)
    assert stages.value("select count(*) from mainspring.visit where parked_at is not null") == 0


async def test_a_service_that_hangs_has_its_own_slots_and_takes_none_of_the_worker_s(
    stages: Stages, service: Service
) -> None:
    """S10: by counts: the hanging service has 100 in hand while another stage does all of its work."""
    kind = stages.kind(serial=False, jitter=0)
    given = {"reads": ["title", "price"], "writes": ["rank"], "ask": False, "timeout": 300}
    kind.remote_stage("rank", service.address, **given)
    done: list[int] = []

    @kind.stage(reads=["id"], writes=[])
    async def local(entity: Any) -> Any:
        done.append(entity["id"])
        return Untouched()

    await stages.install()
    async with stages.working(concurrency=4) as worker:
        stages.add(1000, title="a", price=1)
        await wait_until(lambda: ranked(stages) == 1, 60)  # it is connected
        service.signal(signal.SIGSTOP)
        stages.query(
            "insert into listing (id, title, price) select n, 'a', n from generate_series(1, 200) n"
        )
        await wait_until(lambda: len(done) == 201, 60)
        await wait_until(lambda: len(worker.owned.snapshot()) == 100, 60)
        assert not endpoint_of(worker).is_away
        service.signal(signal.SIGCONT)
        await wait_until(lambda: ranked(stages) == 201, 90)
        await stages.rest(worker)
    assert tried(stages) == 0


async def test_cuts_stalls_and_half_closes_lose_nothing_and_double_nothing(
    stages: Stages, service: Service
) -> None:
    """S10: whatever the network does, each entity is saved once for each change."""
    with tcp_proxy("127.0.0.1", service.port) as proxy:
        declare(stages, f"grpc://{proxy.address}", ask=False, timeout=2.0)
        await stages.install()
        async with stages.working() as worker:
            for number, fault in enumerate(
                [
                    proxy.cut,
                    lambda: proxy.half_close("to_server"),
                    lambda: proxy.half_close("to_client"),
                    lambda: (proxy.stall(), None)[1],
                    lambda: (proxy.stall("to_client"), None)[1],
                    proxy.refuse,
                ]
            ):
                first = 100 * number + 1
                stages.query(
                    "insert into listing (id, title, price) "
                    "select n, 'a', n from generate_series(%s::int, %s::int) n",
                    first,
                    first + 49,
                )
                await service.until(lambda: service.count("Process") > 0)
                fault()
                if number >= 3:
                    endpoint = endpoint_of(worker)
                    await wait_until(lambda e=endpoint: e.is_away, 60)
                    proxy.resume()
                    proxy.accept()
                await wait_until(lambda n=number: ranked(stages) == 50 * (n + 1), 100)
            await stages.rest(worker)
    assert tried(stages) == 0
    assert (
        stages.value("select count(*) from mainspring.state where (body->>'visits')::int <> 1") == 0
    )


async def test_a_channel_that_is_made_anew_loses_no_call(
    stages: Stages, service: Service, monkeypatch: Any
) -> None:
    """S10: certificates and tokens are read again; calls under way end on the old channel."""
    monkeypatch.setattr(peer, "REMADE_EVERY", 0.0)
    declare(stages, service.address, ask=False, saved=True)
    await stages.install()
    stages.query(
        "insert into listing (id, title, price) select n, 'a', n from generate_series(1, 200) n"
    )
    async with stages.working() as worker:
        await wait_until(lambda: ranked(stages) == 200, 90)
        await stages.rest(worker)
        assert endpoint_of(worker).away_since is None
    assert service.count("Describe") == 1
    assert tried(stages) == 0


async def test_status_says_that_a_service_is_away_and_why(stages: Stages, service: Service) -> None:
    """S10: since when and why, from the worker's own gate."""
    declare(stages, service.address, ask=False)
    await stages.install()
    service.kill()
    stages.add(1, title="a", price=1)
    async with stages.working():
        while not (away := (await stages.app.operator.status()).away):
            await asyncio.sleep(0.05)
    [(found, workers)] = away
    assert (found.endpoint, workers) == (service.address, 1)
    assert "UNAVAILABLE" in found.reason
