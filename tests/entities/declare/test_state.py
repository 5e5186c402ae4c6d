"""Private states as they are stored and read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from mainspring import Kind, Untouched
from mainspring.entities.declare.state import StateType, Stored, is_same
from mainspring.errors import InvalidOutcome, InvalidStage, UnreadableState
from mainspring.testing import Clock
from stages import Stages


@dataclass
class PriceState:
    price: int
    seen: list[str]


TYPED = StateType("price", PriceState)


def test_a_typed_state_comes_back_as_it_was() -> None:
    """S5: any typed model, as JSON."""
    state = PriceState(3, ["a", "b"])
    assert TYPED.decode(TYPED.encode(state)) == state


def test_without_a_type_a_state_is_plain_json() -> None:
    plain = StateType("any")
    assert plain.decode(plain.encode({"a": [1, 2]})) == {"a": [1, 2]}


def test_no_state_and_an_emptied_one_are_none() -> None:
    assert TYPED.decode(None) is None
    assert TYPED.decode(TYPED.encode(None)) is None


def test_a_state_of_an_older_schema_goes_through_the_upgrade() -> None:
    """S5: an upgrade hook for what older code wrote."""

    def upgrade(raw: Any, schema: int) -> Any:
        assert schema == 1
        return {"price": raw["cents"] // 100, "seen": []}

    newer = StateType("price", PriceState, schema=2, upgrade=upgrade)

    assert newer.decode(Stored(1, '{"cents": 500}')) == PriceState(5, [])
    assert newer.encode(PriceState(5, [])).schema == 2


@pytest.mark.parametrize(
    "stored",
    [
        Stored(1, '{"price": "much"}'),
        Stored(2, '{"price": 1, "seen": []}'),
        Stored(1, message=b"x", message_type="type.googleapis.com/Price"),
    ],
)
def test_what_does_not_decode_is_an_error_that_says_what_to_do(stored: Stored) -> None:
    with pytest.raises(UnreadableState, match=r"state of stage 'price'.*set the state anew"):
        TYPED.decode(stored)


@pytest.mark.parametrize("value", [{"price": 1}, PriceState("much", []), object(), {"a": "\x00"}])  # type: ignore[arg-type]
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    with pytest.raises(InvalidOutcome, match="state of stage 'price'"):
        (TYPED if value != {"a": "\x00"} else StateType("price")).encode(value)


@pytest.mark.parametrize("schema", [0, -1, True, "2"])
def test_a_schema_is_a_number_from_one(schema: Any) -> None:
    with pytest.raises(InvalidStage, match="schema of stage 'price'"):
        StateType("price", PriceState, schema=schema)


def test_a_type_that_no_json_has_is_refused_at_the_declaration() -> None:
    with pytest.raises(InvalidStage, match="state of stage 'price' cannot be"):
        StateType("price", str | datetime)


def test_a_protobuf_message_is_kept_with_its_type_as_any_keeps_it() -> None:
    """S5: any protobuf message as google.protobuf.Any."""
    typed = StateType("price", Int64Value)
    stored = typed.encode(Int64Value(value=7))
    packed = AnyMessage()
    packed.Pack(Int64Value(value=7))
    assert (stored.message, stored.message_type) == (packed.value, packed.type_url)
    assert typed.decode(stored) == Int64Value(value=7)

    opaque = StateType("price", AnyMessage).decode(stored)
    assert opaque == packed
    assert StateType("price", AnyMessage).encode(opaque) == stored


def test_an_empty_message_is_a_state_and_not_none() -> None:
    typed = StateType("price", Int64Value)
    assert typed.decode(typed.encode(Int64Value())) == Int64Value()


def test_a_message_of_another_type_or_that_is_broken_is_unreadable() -> None:
    typed = StateType("price", Int64Value)
    with pytest.raises(
        UnreadableState,
        match=r"a google\.protobuf\.StringValue is stored, the code wants a google\.protobuf\.Int64Value",
    ):
        typed.decode(StateType("price", StringValue).encode(StringValue(value="x")))
    with pytest.raises(UnreadableState, match="cannot be read"):
        typed.decode(Stored(1, None, b"\xff", "type.googleapis.com/google.protobuf.Int64Value"))
    with pytest.raises(InvalidOutcome, match="must be a Int64Value"):
        typed.encode({"price": 7})


def test_a_message_of_an_older_schema_goes_through_the_upgrade() -> None:
    """S5: the upgrade is given the bytes."""

    def upgrade(raw: bytes, schema: int) -> StringValue:
        return StringValue(value=str(Int64Value.FromString(raw).value))

    stored = StateType("price", Int64Value).encode(Int64Value(value=7))
    assert StateType("price", StringValue, 2, upgrade).decode(stored) == StringValue(value="7")


def test_a_nul_is_refused_and_a_text_that_looks_like_one_is_not() -> None:
    plain = StateType("any")
    with pytest.raises(InvalidOutcome, match="has a NUL, which jsonb cannot hold"):
        plain.encode({"a": "x\0"})
    assert plain.decode(plain.encode("\\u0000")) == "\\u0000"


def test_an_equal_state_is_the_same_however_it_is_printed() -> None:
    assert is_same(Stored(1, '{"a":1,"b":2}'), Stored(1, '{"b": 2, "a": 1}'))
    assert not is_same(Stored(2, '{"a":1}'), Stored(1, '{"a":1}'))
    assert not is_same(Stored(1, None), Stored(1, '{"a":1}'))
    assert is_same(Stored(1, None), None)
    assert not is_same(Stored(1, "1"), None)


def test_a_state_that_becomes_a_truth_is_another_than_the_number() -> None:
    """S5: Python takes 1 and True for equal, JSON and whoever reads the state elsewhere do not."""
    assert not is_same(Stored(1, '{"done":true}'), Stored(1, '{"done": 1}'))


async def test_a_state_of_newer_code_waits_for_a_worker_that_reads_it(
    stages: Stages, clock: Clock
) -> None:
    """S5, S26: in a rolling deploy both codes run; what the new one wrote parks nothing in the old one."""

    def declare(schema: int) -> Kind:
        kind = stages.kind()

        @kind.stage(name="count", state=int, schema=schema)
        async def count(listing: dict[str, Any], state: int | None) -> Untouched:
            return Untouched(state=(state or 0) + 1)

        return kind

    kind = declare(1)
    await stages.install()
    stages.add(1)
    await stages.run()
    stages.query("update mainspring.state set schema = 2")
    await kind.offer(1, stage="count")
    await stages.run()

    visit = stages.visit("listing/count")
    assert visit is not None
    assert visit["parked_at"] is None
    assert "has schema 2 and this worker's code reads 1: newer code wrote it" in visit["error"]

    async with stages.next_release():
        declare(2)
        await clock.advance(60)
        await stages.run()

    assert stages.visit("listing/count") is None
    assert stages.state("count")["body"] == 2  # type: ignore[index]
