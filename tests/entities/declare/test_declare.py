"""Declaring stages: what is accepted, and errors that name value and remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Untouched, Update
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.outcome import KEEP, check_answer, seconds_until
from mainspring.entities.declare.stage import Stage, find
from mainspring.entities.declare.stage_declaration import declare
from mainspring.errors import (
    DuplicateStage,
    InvalidOutcome,
    InvalidSetting,
    InvalidStage,
    InvalidTime,
    UnknownStage,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Kind:
    name: str = "listing"
    is_serial: bool = True
    stages: dict[str, Stage] = field(default_factory=dict)
    model: Model = field(default_factory=lambda: Model("listing"))
    has_table: bool = True


@dataclass
class Listing:
    id: int
    title: str
    price: int = 0


class Whole:
    """A stage with everything."""

    def should_process(self, entity: Any, state: Any) -> bool:
        return True

    async def process(self, entity: Any, state: Any) -> Untouched:
        return Untouched()

    async def saved(self, event: Any) -> None: ...


def test_a_class_an_object_and_a_function_can_be_stages() -> None:
    kind = Kind()

    of_class = declare(kind, Whole, {})
    of_object = declare(kind, Whole(), {"name": "other"})
    of_function = declare(kind, lambda entity: Untouched(), {"name": "third"})

    assert of_class.name == "Whole"
    assert of_class.saved is not None
    assert of_class.is_async
    assert of_object.should_process is not None
    assert (of_function.should_process, of_function.saved) == (None, None)
    assert of_function.process("entity", None) == Untouched()
    assert list(kind.stages) == ["Whole", "other", "third"]
    assert (of_class.queue, of_class.crawl_queue) == ("listing/Whole", "listing/Whole~")


def test_interest_is_what_a_stage_reads_unless_it_says_otherwise() -> None:
    """S17: the default interest is what is read, else everything."""
    assert declare(Kind(), Whole, {"reads": ["a", "a", "b"]}).settings.interest == ("a", "b")
    assert declare(Kind(), Whole, {}).settings.interest is None
    both = declare(Kind(), Whole, {"reads": ["a"], "interest": ["b"]}).settings
    assert (both.reads, both.interest) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        (object(), {}, "must be a class, an object or a function"),
        (type("Empty", (), {}), {}, "has no process"),
        (type("Needs", (), {"__init__": lambda self, x: None}), {}, "declare an instance instead"),
        (lambda: None, {"name": "none"}, r"must take \(entity, state\)"),
        (lambda a, b, c: None, {"name": "three"}, r"must take \(entity, state\)"),
        (Whole, {"name": "a/b"}, "without '/'"),
        (Whole, {"name": "x" * 81}, "1 to 80"),
        (Whole, {"reads": "title"}, "must be a list of names, got the text 'title'"),
        (Whole, {"reads": [3]}, "must name fields, got 3"),
        (Whole, {"raet": 3}, "no setting 'raet'"),
        (Whole, {"retry": 3}, "must be a RetryPolicy"),
        (Whole, {"budget": 0}, "budget of stage"),
        (Whole, {"sees_own": "yes"}, "sees_own of stage"),
        (Whole, {"serial": "no"}, "serial of stage 'Whole' must be True or False, got 'no'"),
        (Whole, {"jitter": -1}, "jitter of stage 'Whole' must be 0 to 3600 seconds, got -1"),
        (Whole, {"jitter": 1}, "say serial=False, or leave it out"),
        (lambda entity: None, {}, "is a lambda, which has no name to be found by"),
    ],
)
def test_what_cannot_be_a_stage_is_refused_with_the_reason(
    target: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidStage, InvalidSetting), match=message):
        declare(Kind(), target, given)


def test_two_stages_of_one_name_are_refused_and_an_unknown_one_names_the_nearest() -> None:
    kind = Kind()
    declare(kind, Whole, {})

    with pytest.raises(DuplicateStage, match="two stages named 'Whole'"):
        declare(kind, lambda entity: None, {"name": "Whole"})
    with pytest.raises(UnknownStage, match="did you mean 'Whole'"):
        find(kind, "Whol")
    with pytest.raises(UnknownStage, match=r"no stage 'xyz'; declare it with @\w+\.stage$"):
        find(kind, "xyz")


def test_outcomes_say_what_they_are() -> None:
    update = Update(price=3, state=None, visit_in=timedelta(hours=1))
    assert (update.patch, update.state, update.visit_in) == ({"price": 3}, None, 3600.0)
    assert repr(update) == "Update(patch={'price': 3}, state=None, visit_in=3600.0)"
    assert Untouched().state is KEEP
    assert Untouched(visit_at=NOW) == Untouched(visit_at=NOW) != Untouched()
    with pytest.raises(InvalidOutcome, match="not both"):
        Update({"id": 1}, price=3)
    with pytest.raises(InvalidOutcome, match="patch must be a mapping"):
        Update(patch=[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [None, True, "done", {"price": 3}, Update])
def test_nonsense_from_process_is_named(answer: Any) -> None:
    with pytest.raises(InvalidOutcome, match="process of stage 'price' must return"):
        check_answer(answer, "price")


@pytest.mark.parametrize(
    "given",
    [
        {"visit_at": datetime(2026, 1, 1)},
        {"visit_at": "tomorrow"},
        {"visit_in": "1d"},
        {"visit_in": True},
        {"visit_in": float("nan")},
        {"visit_in": float("inf")},
        {"visit_in": timedelta(days=4000)},
        {"visit_in": 1, "visit_at": NOW},
    ],
)
def test_times_that_are_none_are_refused(given: dict[str, Any]) -> None:
    """S4: a timer has a zone, is finite and not beyond ten years."""
    with pytest.raises(InvalidTime):
        Untouched(**given)


def test_a_time_in_the_past_is_now_and_one_too_far_is_refused() -> None:
    assert seconds_until(Untouched(visit_in=-5), NOW) == 0
    assert seconds_until(Untouched(visit_at=NOW - timedelta(days=1)), NOW) == 0
    assert seconds_until(Untouched(visit_at=NOW + timedelta(days=1)), NOW) == 86_400
    assert seconds_until(Untouched(), NOW) is None
    with pytest.raises(InvalidTime, match="at most 3660 days from now"):
        seconds_until(Untouched(visit_at=NOW + timedelta(days=4000)), NOW)


@pytest.mark.parametrize(
    ("has_table", "given", "error"),
    [
        (True, {"reads": ["titel"]}, "reads of stage 'wrong' names 'titel'.*did you mean 'title'"),
        (True, {"reads": ["wholly"]}, "model Listing of kind 'listing' .*it has id, title, price"),
        (False, {"writes": ["prize"]}, "writes of stage 'wrong' names 'prize'.*mean 'price'"),
        (False, {"interest": ["tite"]}, "interest of stage 'wrong' names 'tite'"),
    ],
)
def test_a_field_that_the_model_does_not_have_is_refused_where_it_is_declared(
    has_table: bool, given: dict[str, Any], error: str
) -> None:
    """S6, bad input: not when a stage first looks at it."""
    kind = Kind(model=Model("listing", Listing), has_table=has_table)
    with pytest.raises(InvalidStage, match=error):
        declare(kind, Whole, {"name": "wrong", **given})


def test_a_table_may_have_columns_to_write_that_the_model_does_not_show() -> None:
    """S26: they are looked for when the table is looked at."""
    kind = Kind(model=Model("listing", Listing))
    declare(kind, Whole, {"name": "fine", "writes": ["rank"], "interest": ["rank"]})
    assert "fine" in kind.stages
