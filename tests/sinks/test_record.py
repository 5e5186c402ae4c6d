"""Events as CloudEvents records."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mainspring import Saved
from mainspring.errors import InvalidSetting
from mainspring.sinks.record import record_of, record_shape

BODY = json.dumps(
    {
        "entity": {"id": 1, "price": 7, "secret": "x"},
        "state": {"n": 1},
        "changed": {"price": [1, 7]},
    }
)


def event(**fields: object) -> Saved:
    given: dict[str, object] = {
        "kind": "listing",
        "id": 1,
        "consumer": "kafka",
        "number": 42,
        "what": "saved",
        "stage": "Price",
        "entity": None,
        "state": None,
        "entity_version": 3,
        "state_version": None,
        "changed": {},
        "created_at": datetime(2026, 11, 18, 12, tzinfo=UTC),
        "key": "1",
        "body": BODY,
    }
    return Saved(**{**given, **fields})  # type: ignore[arg-type]


def test_a_record_names_its_event_for_ever() -> None:
    """S7: id and source are unique together; the number is padded, so texts compare as numbers do."""
    found = record_of(event(), record_shape("shop", "com.example.", True, None))
    assert found.key == "1"
    assert found.attributes == {
        "specversion": "1.0",
        "id": "42",
        "source": "shop/listing",
        "type": "com.example.listing.saved",
        "subject": "1",
        "time": "2026-11-18T12:00:00Z",
        "datacontenttype": "application/json",
        "sequence": "0000000000000000042",
        "idempotencykey": "kafka:42",
        "stage": "Price",
        "entityversion": "3",
    }
    assert json.loads(found.data) == json.loads(BODY)


def test_what_is_not_wanted_is_left_out() -> None:
    found = record_of(event(), record_shape("shop", "", False, ["price"]))
    assert json.loads(found.data) == {"entity": {"price": 7}, "changed": {"price": [1, 7]}}


def test_a_slim_record_says_that_it_is_one() -> None:
    found = record_of(event(), record_shape("shop", "", True, None), slim=True)
    assert json.loads(found.data) == {}
    assert found.attributes["slim"] == "true"


def test_an_event_without_a_body_is_a_record_without_data() -> None:
    found = record_of(event(body=None, what="deleted"), record_shape("shop", "", True, ["price"]))
    assert (found.data, found.attributes["type"]) == (b"{}", "listing.deleted")


@pytest.mark.parametrize(
    ("source", "fields", "text"),
    [
        ("", None, "source must be printable"),
        ("a b", None, "source must be printable"),
        ("a", "price", "fields must be a list"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(
    source: str, fields: list[str] | None, text: str
) -> None:
    with pytest.raises(InvalidSetting, match=text):
        record_shape(source, "", True, fields)
