"""Ids of a type of one's own: given and handed out as such, texts in the database (S25)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import Codec, Mainspring, Saved, Untouched, Update
from mainspring.errors import InvalidKey, InvalidKind
from mainspring.testing import Simulation
from stages import Stages


@dataclass(frozen=True)
class PlateId:
    """A licence plate."""

    region: str
    number: int

    @classmethod
    def parse(cls, text: str) -> PlateId:
        region, number = text.split("-")
        return cls(region, int(number))

    def text(self) -> str:
        return f"{self.region}-{self.number}"


CODEC = Codec(PlateId.text, PlateId.parse)
MINE = PlateId("B", 7)


@dataclass
class Car:
    id: str
    n: int = 0
    version: int = 1


class Count:
    """Counts once, and notes the ids of its events."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def process(self, car: Car, state: int | None) -> Untouched | Update:
        return Update(n=1, state=1) if car.n == 0 else Untouched()

    async def saved(self, event: Saved) -> None:
        self.heard.append(event.id)

    async def state_changed(self, event: Saved) -> None:
        self.heard.append(event.id)

    async def deleted(self, event: Saved) -> None:
        self.heard.append(event.id)


async def test_an_id_of_ones_own_type_goes_in_and_comes_out_everywhere(stages: Stages) -> None:
    stages.query(
        "create table car (id text primary key, n int default 0, version bigint default 1)"
    )
    cars, count = stages.app.entities("car", table="car", model=Car, id=CODEC), Count()
    cars.stage(name="Count", state=int)(count)
    await stages.install()
    stages.query("insert into car values ('B-7')")

    assert await cars.offer(MINE, stage="Count") is True
    [first] = await cars.peek("Count", 10)
    assert (first.id, first.key) == (MINE, "B-7")
    assert "car/Count" in [entry.queue for entry in await cars.check(MINE)]
    await stages.run()
    value, version = await cars.state("Count", MINE)
    assert await cars.set_state("Count", MINE, value + 1, version) is True
    edited = await cars.edit(MINE, lambda car: Update(n=car.n + 1))
    await cars.changed([MINE], fields=["n"])
    assert (await stages.app.operator.entities.why("car", MINE)).key == "B-7"
    assert await stages.app.operator.entities.check("car", MINE)
    assert await stages.app.operator.entities.check("car", "B-7")
    await cars.delete_visit(MINE, "Count")
    await stages.run()
    stages.query("delete from car")
    await stages.run()

    assert edited is not None
    assert stages.query("select * from car") == []
    assert len(count.heard) == 3
    assert set(count.heard) == {MINE}


async def test_a_key_that_the_codec_cannot_read_hides_no_other(stages: Stages) -> None:
    """S25: a look at the queue shows its text."""
    stages.query(
        "create table car (id text primary key, n int default 0, version bigint default 1)"
    )
    cars = stages.app.entities("car", table="car", model=Car, id=CODEC)
    cars.stage(lambda car: Untouched(), name="Look")
    await stages.install()
    stages.query("insert into car values ('B-7'), ('nonsense')")
    await cars.offer(MINE, stage="Look")
    await cars.offer("nonsense", stage="Look")

    assert [seen.id for seen in await cars.peek("Look", 10)] == [MINE, "nonsense"]


async def test_a_document_has_an_id_of_ones_own_type(stages: Stages) -> None:
    """S25, S26"""
    drafts = stages.app.documents("draft", id=CODEC)
    drafts.stage(lambda draft: Untouched(), name="Look")
    await stages.install()

    assert await drafts.replace(MINE, {"a": 1}, 0)

    found = await drafts.get(MINE)
    assert found is not None
    assert found[0] == {"a": 1}
    assert await drafts.get("B-7") == found


def test_a_simulation_hands_out_such_ids_too() -> None:
    cars, count = (
        Mainspring("postgresql://x/y").entities("car", table="car", model=Car, id=CODEC),
        Count(),
    )
    cars.stage(name="Count", state=int)(count)
    simulation = Simulation(cars, hooks=True)

    id = simulation.put(Car("B-7"))
    simulation.run()

    assert (id, simulation.entity(MINE).n, count.heard) == (MINE, 1, [MINE])


def test_what_a_codec_cannot_write_or_read_is_told() -> None:
    cars = Mainspring("postgresql://x/y").entities("car", table="car", id=CODEC)

    with pytest.raises(InvalidKey, match=r"no id of kind 'car': its codec cannot write int 7 \("):
        cars.key_of(7)
    with pytest.raises(InvalidKey, match=r"no id of kind 'car': its codec cannot read 'B' \("):
        cars.id_from("B")
    with pytest.raises(InvalidKey, match="to_text of its codec must return a text, got 7"):
        Codec(lambda id: 7, str).text("car", MINE)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidKind, match="to_text of a Codec must be a function, got 'x'"):
        Codec("x", str)  # type: ignore[arg-type]
    with pytest.raises(InvalidKind, match=r"id must be a Codec\(to_text, from_text\), got "):
        Mainspring("postgresql://x/y").entities("car", table="car", id=str)  # type: ignore[arg-type]
