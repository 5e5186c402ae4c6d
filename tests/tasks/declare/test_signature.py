"""T13: arguments: typed by the function, refused when they cannot travel."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.errors import (
    DuplicateTask,
    InvalidArguments,
    InvalidKey,
    InvalidSetting,
    InvalidTask,
    InvalidTime,
    InvalidUrl,
    PayloadTooLarge,
)
from mainspring.tasks.declare.signature import PAYLOAD_BYTES, Signature


@pytest.fixture
def app() -> Mainspring:
    """An application that is never connected."""
    return Mainspring("postgresql://nobody@nowhere/none")


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


class Order(msgspec.Struct):
    id: int
    lines: list[str]


class Address(TypedDict):
    street: str


class Plain:
    """A class that msgspec cannot read."""


@dataclasses.dataclass
class Holder:
    inside: tuple[Plain, ...]


@dataclasses.dataclass
class Tree:
    branches: list[Tree]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 7),
        (float, 1.5),
        (bool, True),
        (str, "héllo \N{SNOWMAN}"),
        (bytes, b"\x00\xff"),
        (None, None),
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (int | None, None),
        (datetime, datetime(2030, 1, 1, tzinfo=UTC)),
        (date, date(2030, 1, 1)),
        (timedelta, timedelta(minutes=5)),
        (Decimal, Decimal("12.340")),
        (UUID, uuid4()),
        (Colour, Colour.RED),
        (Point, Point(1, 2)),
        (Order, Order(1, ["a"])),
        (Address, {"street": "Main"}),
        (Literal["a", "b"], "b"),
        (Annotated[int, msgspec.Meta(ge=0)], 5),
        (Any, {"free": [1, None]}),
    ],
)
def test_a_value_of_every_kind_comes_back_as_it_was(kind: Any, value: Any) -> None:
    def task(value): ...

    task.__annotations__ = {"value": kind}
    signature = Signature("task", task, Context)

    payload = signature.encode((value,), {}).decode()

    assert signature.decode(payload) == {"value": value}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3
            )
        ),
        max_leaves=8,
    ).filter(lambda value: "\x00" not in repr(value) and "\\x00" not in repr(value))
)
def test_any_json_travels_unchanged(value: Any) -> None:
    def task(value: Any): ...

    signature = Signature("task", task, Context)

    assert signature.decode(signature.encode((value,), {}).decode()) == {"value": value}


def test_an_argument_that_is_not_given_is_not_written() -> None:
    """Its default is the function's."""

    def task(long_name: int, b: int, é: int, a: int = 1, *, with_default: int = 5): ...

    signature = Signature("task", task, Context)

    payload = signature.encode((1, 2), {"é": 3, "a": 1})

    assert payload.decode() == '{"long_name":1,"b":2,"é":3,"a":1}'


def test_an_argument_that_is_unset_is_refused_and_not_left_out() -> None:
    def task(a: int = 1): ...

    with pytest.raises(InvalidArguments, match="UnsetType are unsupported"):
        Signature("task", task, Context).encode((), {"a": msgspec.UNSET})


class TestArguments:
    @pytest.fixture
    def task(self, app: Mainspring):
        @app.task
        async def pay(order: int, note: str = "", when: datetime | None = None) -> None: ...

        return pay

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"order": "seven"}, "Expected `int`, got `str`.*order"),
            ({}, "missing required field `order`"),
            ({"order": 1, "nope": 2}, "unknown field `nope`"),
            ({"order": 1, "note": 5}, "Expected `str`"),
            ({"order": 1.5}, "Expected `int`"),
            ({"order": None}, "Expected `int`"),
        ],
    )
    def test_mistyped_arguments_are_refused_and_shown(self, task, arguments, message) -> None:
        with pytest.raises(InvalidArguments, match=message) as caught:
            task.bind(**arguments)

        assert "'pay'" in str(caught.value)

    @pytest.mark.parametrize(
        "value", [object(), lambda: None, {1: object()}, open, type], ids=lambda v: repr(v)[:20]
    )
    def test_what_cannot_be_written_as_json_is_refused(self, app: Mainspring, value) -> None:
        @app.task
        async def anything(value: Any) -> None: ...

        with pytest.raises(InvalidArguments, match="cannot be written as JSON"):
            anything.bind(value=value)

    def test_a_structure_that_contains_itself_is_refused(self, app: Mainspring) -> None:
        @app.task
        async def anything(value: Any) -> None: ...

        endless: list[Any] = []
        endless.append(endless)

        with pytest.raises(InvalidArguments, match="cannot be written as JSON"):
            anything.bind(value=endless)

    @pytest.mark.parametrize("text", ["\x00", "a\x00b"])
    def test_nul_is_refused(self, task, text: str) -> None:
        with pytest.raises(InvalidArguments, match="NUL"):
            task.bind(order=1, note=text)

    def test_nul_deep_inside_is_refused(self, app: Mainspring) -> None:
        @app.task
        async def anything(value: Any) -> None: ...

        for value in ([{"a": "\x00"}], {"\x00": 1}, {"a": ("x", "\x00")}, Order(1, ["\x00"])):
            with pytest.raises(InvalidArguments, match="NUL"):
                anything.bind(value=value)

    def test_an_escaped_backslash_before_u0000_is_no_nul(self, task) -> None:
        task.bind(order=1, note="\\u0000")

    def test_a_lone_surrogate_is_refused(self, task) -> None:
        with pytest.raises(InvalidArguments, match="cannot be written as JSON"):
            task.bind(order=1, note="\ud800")

    @pytest.mark.parametrize("number", [float("nan"), float("inf")])
    def test_a_number_that_json_does_not_have_is_refused(self, app, number: float) -> None:
        @app.task
        async def measure(value: float) -> None: ...

        with pytest.raises(InvalidArguments):
            measure.bind(value=number)

    def test_too_large_a_payload_is_refused_with_its_size(self, task) -> None:
        with pytest.raises(PayloadTooLarge, match=rf"\d+ bytes, the limit is {PAYLOAD_BYTES}"):
            task.bind(order=1, note="x" * PAYLOAD_BYTES)

    def test_too_many_positional_arguments_are_refused(self, task) -> None:
        with pytest.raises(InvalidArguments, match="takes 3 arguments"):
            task.bind(1, "a", None, 4)

    def test_an_argument_given_twice_is_refused(self, task) -> None:
        with pytest.raises(InvalidArguments, match="'order' twice"):
            task.bind(1, order=2)


class TestDeclaring:
    def test_a_name_can_be_declared_once(self, app: Mainspring) -> None:
        @app.task(name="pay")
        async def one() -> None: ...

        with pytest.raises(DuplicateTask, match=r"'pay' is declared twice.*test_signature\.py"):

            @app.task(name="pay")
            async def two() -> None: ...

    def test_the_same_function_can_be_declared_again(self, app: Mainspring) -> None:
        async def pay() -> None: ...

        app.task(pay)
        app.task(pay)

    @pytest.mark.parametrize("source", ["*args", "**kwargs", "a, /"])
    def test_parameters_without_a_name_are_refused(self, app: Mainspring, source: str) -> None:
        scope: dict[str, Any] = {}
        exec(f"async def task({source}): ...", scope)

        with pytest.raises(InvalidTask, match="arguments travel by name"):
            app.task(scope["task"])

    def test_a_type_that_cannot_travel_is_refused(self, app: Mainspring) -> None:
        async def task(connection: type[int] | complex) -> None: ...

        with pytest.raises(InvalidTask, match="cannot travel as JSON"):
            app.task(task)

    @pytest.mark.parametrize(
        "kind", [Plain, list[Plain], dict[str, Plain | None], Path, Holder, Callable[[], int]]
    )
    @pytest.mark.parametrize("place", ["value", "return"])
    def test_a_class_that_no_json_becomes_is_refused(self, app, kind: Any, place: str) -> None:
        """It would be refused at every enqueue, or after the work was done."""

        async def task(value: int) -> None: ...

        task.__annotations__[place] = kind

        with pytest.raises(InvalidTask, match=r"cannot travel as JSON: \w+(\.\w+)+ is not such"):
            app.task(task)

    @pytest.mark.parametrize("kind", [object, Hashable, Tree, Sequence[int], Any, set[UUID]])
    def test_a_type_that_holds_json_is_taken(self, app: Mainspring, kind: Any) -> None:
        async def task(value: int) -> None: ...

        task.__annotations__["value"] = kind

        app.task(task)

    def test_a_lambda_is_refused(self, app: Mainspring) -> None:
        for settings in ({}, {"name": "short"}):
            with pytest.raises(InvalidTask, match=r"is a lambda.*with def"):
                app.task(**settings)(lambda: None)

    def test_an_annotation_that_cannot_be_resolved_is_refused(self, app: Mainspring) -> None:
        async def task(value: Nowhere) -> None: ...  # noqa: F821

        with pytest.raises(InvalidTask, match="Nowhere"):
            app.task(task)

    def test_a_mutable_default_is_refused(self, app: Mainspring) -> None:
        async def task(values: list[int] = [1]) -> None: ...  # noqa: B006

        with pytest.raises(InvalidTask, match="mutable default"):
            app.task(task)

    def test_what_is_no_function_is_refused(self, app: Mainspring) -> None:
        with pytest.raises(InvalidTask, match="must be a function"):
            app.task(7)  # type: ignore[call-overload]

    def test_a_callable_that_is_no_function_is_refused(self, app: Mainspring) -> None:
        with pytest.raises(InvalidTask, match="not a function"):
            app.task(name="partial")(functools.partial(_nothing))

    def test_a_generator_is_refused(self, app: Mainspring) -> None:
        async def stream() -> Any:
            yield 1

        def plain() -> Any:
            yield 1

        for function in (stream, plain):
            with pytest.raises(InvalidTask, match="generator"):
                app.task(function)

    @pytest.mark.parametrize(
        "settings",
        [
            {"priority": 10},
            {"priority": -1},
            {"priority": True},
            {"priority": "high"},
            {"timeout": 0},
            {"timeout": -1},
            {"timeout": "1m"},
            {"hold_after": -1},
            {"crash_limit": 0},
            {"concurrency": 0},
            {"concurrency": 1.5},
            {"rate": 0},
            {"group_concurrency": -2},
            {"group_rate": -1},
            {"retry": 3},
            {"retry": {"attempts": 3}},
            {"name": "x" * 201},
            {"name": "a\x00b"},
            {"pool": ""},
            {"cron": "every day"},
            {"cron": "0 0 * * *", "zone": "Mars/Olympus"},
        ],
        ids=str,
    )
    def test_settings_out_of_range_are_refused_when_declared(self, app, settings) -> None:
        with pytest.raises(InvalidSetting):
            app.task(**settings)(_nothing)

    def test_searchable_must_name_arguments(self, app: Mainspring) -> None:
        with pytest.raises(InvalidTask, match="'usr'"):

            @app.task(searchable=["usr"])
            async def task(user: str) -> None: ...


async def _nothing() -> None: ...


class TestOptions:
    @pytest.fixture
    def task(self, app: Mainspring):
        return app.task(_nothing)

    def test_a_naive_datetime_is_refused(self, task) -> None:
        naive = datetime(2030, 1, 1)

        for name in ("at", "expires_at"):
            with pytest.raises(InvalidTime, match=f"{name} must be a datetime with a time zone"):
                task.options(**{name: naive})

    @pytest.mark.parametrize("at", ["2030-01-01", 5, date(2030, 1, 1)])
    def test_what_is_no_datetime_is_refused(self, task, at) -> None:
        with pytest.raises(InvalidTime):
            task.options(at=at)

    def test_at_and_delay_together_are_refused(self, task) -> None:
        with pytest.raises(InvalidTime, match="not both"):
            task.options(at=datetime.now(UTC), delay=timedelta(1))

    @pytest.mark.parametrize("name", ["at", "expires_at"])
    def test_a_time_that_drivers_cannot_read_back_is_refused(self, task, name) -> None:
        with pytest.raises(InvalidTime, match=f"{name} must be before the year 9999, got 9999-06"):
            task.options(**{name: datetime(9999, 6, 1, tzinfo=UTC)})
        with pytest.raises(InvalidTime, match=f"{name} must not be before the year 1 in UTC"):
            task.options(**{name: datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))})

    @pytest.mark.parametrize("days", [365_001, -365_001, 999_999_999])
    def test_a_delay_that_leads_beyond_the_calendar_is_refused(self, task, days) -> None:
        with pytest.raises(InvalidTime, match=f"delay must be at most 365000 days, got {days}"):
            task.options(delay=timedelta(days=days))

    @pytest.mark.parametrize("name", ["key", "group"])
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("", "must not be empty"),
            ("a\x00b", "NUL"),
            ("\ud800", "lone surrogate"),
            (7, "must be a str"),
            ("x" * 1025, "bytes, the limit is"),
            ("é" * 600, "1200 bytes, the limit is"),
        ],
    )
    def test_bad_keys_and_groups_are_refused(self, task, name, value, message) -> None:
        with pytest.raises(InvalidKey, match=message):
            task.options(**{name: value})

    @pytest.mark.parametrize("priority", [-1, 10, "high", 5.0, True])
    def test_a_priority_out_of_range_is_refused(self, task, priority) -> None:
        with pytest.raises(InvalidSetting, match="priority must be 0 to 9"):
            task.options(priority=priority)


class TestUrls:
    @pytest.mark.parametrize("url", ["", "mysql://x", "postgresql://[", "not a url"])
    def test_an_address_that_cannot_be_read_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidUrl):
            Mainspring(url)

    def test_a_password_is_never_shown(self) -> None:
        with pytest.raises(InvalidUrl) as caught:
            Mainspring("postgresql://ann:secret@host/x?nonsense=1")

        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"concurrency": "many"},
        {"lease": 0.1},
        {"poll": 0},
        {"grace": -1},
        {"page": 0},
        {"history_days": 0},
        {"fence": "maybe"},
        {"pool": ""},
    ],
    ids=str,
)
def test_settings_of_a_worker_out_of_range_are_refused(settings) -> None:
    from mainspring.kernel.settings import WorkerSettings

    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        WorkerSettings(**settings)


def test_a_policy_is_checked_where_it_is_written() -> None:
    with pytest.raises(InvalidSetting, match="attempts must be 1 to 1000000, got 0"):
        RetryPolicy(attempts=0)


def deep(levels: int, inside: object = 1) -> object:
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize("what", ["digits", "depth", "depth of nulls", "digits inside"])
def test_a_number_or_a_depth_beyond_json_is_a_clear_error(what: str) -> None:
    value = {
        "digits": 10**5000,
        "depth": deep(10_000),
        "depth of nulls": deep(10_000, None),
        "digits inside": {"a": 10**5000},
    }[what]

    def store(value: Any) -> None: ...

    signature = Signature("store", store, Context)
    with pytest.raises(
        InvalidArguments, match="arguments of task 'store' cannot be written as JSON"
    ):
        signature.encode((), {"value": value})


@pytest.mark.parametrize("levels", range(300, 1000, 100))
def test_no_depth_gets_past_as_a_bare_error(levels: int) -> None:
    """What JSON can write may still be too deep to look through."""

    def store(value: Any) -> Any: ...

    signature = Signature("store", store, Context)
    for inside in (None, "\x00"):
        try:
            signature.encode((), {"value": deep(levels, inside)})
            signature.encode_result(deep(levels, inside))
        except InvalidArguments:
            pass


def test_errors_name_fields_and_types_and_no_values() -> None:
    """T12: they go to logs and history."""

    def pay(amount: int, kind: Literal["card"] = "card") -> int: ...

    signature = Signature("pay", pay, Context)
    faults: list[str] = []
    for arguments in (
        {"amount": "CANARY"},
        {"amount": 1, "kind": "CANARY"},
        {"amount": 1, "unknown": "CANARY"},
        {"amount": object},
    ):
        with pytest.raises(InvalidArguments) as refused:
            signature.encode((), arguments)
        faults.append(str(refused.value))
    for text in ('{"amount": "CANARY"}', '{"amount": 1, "kind": "CANARY"}', "CANARY", '["CANARY"]'):
        with pytest.raises(InvalidArguments) as refused:
            signature.decode(text)
        faults.append(str(refused.value))
    with pytest.raises(InvalidArguments) as refused:
        signature.decode_result('"CANARY"')
    faults.append(str(refused.value))

    assert not [text for text in faults if "CANARY" in text]
    assert "got dict of amount: str" in faults[0]
