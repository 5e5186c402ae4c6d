"""A stage in a service of its own: it is asked, its answers are saved, and its failures are its entities'
own (S10)."""

from __future__ import annotations

from typing import Any

from services import Service

from stages import Stages

READS = ["id", "title", "price"]
WRITES = ["rank"]


def declare(stages: Stages, address: str, **settings: Any) -> Any:
    """The stage listing/rank at this address."""
    kind = stages.kind()
    given = {"reads": READS, "writes": WRITES, "budget": 20.0, "timeout": 30.0} | settings
    kind.remote_stage("rank", address, **given)
    return kind


async def test_a_stage_elsewhere_is_asked_and_its_answer_is_saved(
    stages: Stages, service: Service
) -> None:
    """S10: a stage of another process is a stage as any other."""
    declare(stages, service.address)
    await stages.install()
    stages.add(1, title="a", price=7)

    await stages.run()

    assert stages.listing()["rank"] == 14
    assert stages.state("rank")["body"] == {"visits": 1}
    assert stages.state("rank")["schema"] == 3
    assert service.ids("Process") == [["1"]]


async def test_the_service_is_asked_whether_it_wants_an_entity(
    stages: Stages, service: Service
) -> None:
    """S7, S10: what it does not want is not offered; what it cannot answer is."""
    declare(stages, service.address)
    await stages.install()
    stages.add(1, title="unwanted")
    stages.add(2, title="ask badly")
    stages.add(3, title="a")

    await stages.run()

    asked = {
        key: stages.history("listing", key)[-1]["result"]["asked"]["rank"] for key in (1, 2, 3)
    }
    assert asked == {1: False, 2: "failed: ValueError: no idea", 3: True}
    assert sorted(id for call in service.ids("Process") for id in call) == ["2", "3"]


async def test_a_service_hears_what_was_saved_and_no_field_beyond_its_reads(
    stages: Stages, service: Service
) -> None:
    """S7: the events of an entity come in order, with the declared fields alone."""
    declare(stages, service.address, saved=True)
    await stages.install()
    stages.add(1, title="a", price=7, note="secret")
    async with stages.working() as worker:
        await stages.rest(worker)
        stages.change(price=8)
        await stages.rest(worker)

    first, second = service.lines("heard")
    assert first.endswith("saved [('id', 1), ('price', 7), ('title', 'a')]")
    assert second.endswith("saved [('id', 1), ('price', 8), ('title', 'a')]")
    assert stages.events() == []


async def test_a_run_elsewhere_is_traced_by_its_visit(stages: Stages, service: Service) -> None:
    """S10: what the service logs under the trace is found in history by the same id."""
    declare(stages, service.address)
    await stages.install()
    stages.add(1, title="trace")

    await stages.run()

    version, trace, span, flags = stages.state("rank")["body"]["traceparent"].split("-")
    assert (version, trace, flags) == ("00", stages.history("listing/rank")[-1]["id"].hex, "01")
    assert len(span) == 16
    assert int(span, 16) > 0
