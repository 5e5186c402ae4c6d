"""What people write in their first hour, and what they are told: each by its text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
import pytest

from mainspring import Mainspring, RetryPolicy, Untouched
from mainspring.blueprint import Blueprint
from mainspring.errors import (
    InvalidArguments,
    InvalidSetting,
    InvalidStage,
    InvalidTask,
    InvalidTime,
)
from mainspring.tasks.declare.wait import wait_for

NAIVE = datetime(2030, 1, 1, 12)
NOON = NAIVE.replace(tzinfo=UTC)


@pytest.fixture
def app() -> Mainspring:
    """An application that is never connected."""
    return Mainspring("postgresql://nobody@nowhere/none")


def told(error: Any, action: Any) -> str:
    with pytest.raises(error) as caught:
        action()
    return str(caught.value)


class TestTimes:
    def test_an_argument_without_a_zone_is_refused(self, app: Mainspring) -> None:
        """T13: typed payloads: which argument, which value, what to do."""

        @app.task
        def remind(person: str, at: datetime) -> None: ...

        assert told(InvalidArguments, lambda: remind.bind("ann", at=NAIVE)) == (
            "arguments of task 'remind' do not fit its signature: Expected `datetime` with a timezone "
            "component - at `$.at`; got dict of person: str, at: datetime; "
            "use datetime.now(UTC) or .replace(tzinfo=...), or declare a time without a zone: "
            "Annotated[datetime, msgspec.Meta(tz=False)]"
        )
        remind.bind("ann", at=NOON)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (datetime | None, NAIVE),
            (list[datetime], [NOON, NAIVE]),
            (dict[str, datetime], {"a": NAIVE}),
            (Sequence[tuple[int, datetime | None]], [(1, NAIVE)]),
        ],
        ids=str,
    )
    def test_nor_is_one_inside_of_another_type(self, app: Mainspring, kind: Any, value) -> None:
        def task(at) -> None: ...

        task.__annotations__["at"] = kind
        with pytest.raises(InvalidArguments, match="timezone component"):
            app.task(task).bind(at=value)

    def test_nor_is_a_signal_s(self, app: Mainspring) -> None:
        met = app.signal("met", datetime)

        assert met.encode(NOON) == '"2030-01-01T12:00:00Z"'
        with pytest.raises(InvalidArguments, match="timezone component"):
            met.encode(NAIVE)

    def test_who_means_a_time_without_a_zone_says_so(self, app: Mainspring) -> None:
        @app.task
        def ring(at: Annotated[datetime, msgspec.Meta(tz=False)]) -> None: ...

        assert b"2030-01-01T12:00:00" in ring.bind(at=NAIVE).payload

    def test_what_is_stored_already_is_read_as_it_is(self, app: Mainspring) -> None:
        """A release that refuses more must not park what the last one took."""

        @app.task
        def remind(at: datetime) -> None: ...

        assert remind.signature.decode('{"at":"2030-01-01T12:00:00"}') == {"at": NAIVE}

    def test_a_delay_is_seconds_or_a_timedelta(self, app: Mainspring) -> None:
        @app.task
        def note() -> None: ...

        assert note.options(delay=90).call_options.delay == timedelta(seconds=90)
        assert note.options(delay=timedelta(hours=1)).call_options.delay == timedelta(hours=1)
        assert told(InvalidTime, lambda: note.options(delay="5m")) == (
            "delay must be seconds (a number, or a timedelta), got '5m'"
        )
        assert told(InvalidTime, lambda: note.options(delay=1e300)) == (
            "delay must be at most 365000 days, got 1e+300 seconds"
        )


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            (
                {"timeout": "30s"},
                "timeout must be 0.000001 to 10000000 seconds (a number, or a timedelta), got '30s'",
            ),
            (
                {"hold_after": "1"},
                "hold_after must be 0 to 3600 seconds (a number, or a timedelta), got '1'",
            ),
            ({"rate": "5/m"}, "rate must be 0.000001 to 10000000 starts a second, got '5/m'"),
            ({"work_timeout": "1m"}, "work_timeout must be 1 or more seconds, got '1m'"),
            ({"pool": 3}, "pool must have a name, got 3"),
        ],
        ids=str,
    )
    def test_one_of_the_wrong_type_says_what_it_wants(self, app: Mainspring, settings, text):
        def task() -> None: ...

        assert told(InvalidSetting, lambda: app.task(**settings)(task)) == text

    def test_a_zone_needs_a_cron_line(self, app: Mainspring) -> None:
        def report() -> None: ...

        assert told(InvalidTask, lambda: app.task(zone="Europe/Paris")(report)) == (
            "task 'report': zone='Europe/Paris' is that of a cron line, and there is none: "
            "give cron= too, or leave zone out"
        )

    def test_a_cron_line_calls_without_arguments(self, app: Mainspring) -> None:
        def report(shop: int, day: str, kind: str = "all") -> None: ...

        assert told(InvalidTask, lambda: app.task(cron="0 4 * * *")(report)) == (
            "task 'report' has a cron line, which calls it without arguments, but day, shop must be "
            "given: give them in cron_args=, or a default"
        )

    def test_exceptions_are_several_even_if_one(self) -> None:
        assert told(InvalidSetting, lambda: RetryPolicy(give_up_on=ValueError)) == (  # type: ignore[arg-type]
            "give_up_on must be a tuple of exception classes, got <class 'ValueError'>; note the comma "
            "in (ValueError,)"
        )

    def test_delays_of_a_policy_are_numbers(self) -> None:
        assert told(InvalidSetting, lambda: RetryPolicy(first=timedelta(seconds=3))) == (  # type: ignore[arg-type]
            "first must be a number of seconds, got datetime.timedelta(seconds=3)"
        )


class TestCalls:
    def test_an_unknown_option_brings_the_nearest(self, app: Mainspring) -> None:
        @app.task
        def note() -> None: ...

        @app.process
        def order() -> None: ...

        assert told(InvalidSetting, lambda: note.options(prio=3)) == (
            "task 'note' has no option 'prio'; did you mean 'priority'?"
        )
        assert told(InvalidSetting, lambda: note.options(countdown=3)) == (
            "task 'note' has no option 'countdown'; write delay=... (seconds, or a timedelta)"
        )
        assert told(InvalidSetting, lambda: note.options(xyzzy=3)) == (
            "task 'note' has no option 'xyzzy'; there are at, delay, expires_at, group, key, on, "
            "priority, unique"
        )
        assert told(InvalidSetting, lambda: order.options(atrs={})) == (
            "process 'order' has no option 'atrs'; did you mean 'attrs'?"
        )

    @pytest.mark.parametrize("kind", [list, iter])
    def test_a_bad_row_of_many_is_named_by_its_number(self, app: Mainspring, kind) -> None:
        @app.task
        def note(n: int) -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            list(note._bind_all(kind([{"n": 1}, {"n": 2}, {"n": "three"}])))

        assert str(caught.value) == (
            "call 2 of enqueue_many: arguments of task 'note' do not fit its signature: Expected "
            "`int`, got `str` - at `$.n`; got dict of n: str"
        )

    async def test_many_of_any_task_are_bound_first(self, app: Mainspring) -> None:
        @app.task
        def note() -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            await app.enqueue_many([note.bind(), note])  # type: ignore[list-item]

        assert str(caught.value) == (
            "app.enqueue_many takes calls made with task.bind(...), got <task note> as number 1"
        )


class TestElsewhere:
    """The same in other declarations."""

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            (
                {"timeout": "5s"},
                "timeout of stage 'Score' must be 0.000001 to 10000000 seconds (a number, or a "
                "timedelta), got '5s'",
            ),
            ({"parallel": 0}, "parallel of stage 'Score' must be 1 to 1000000, got 0"),
            (
                {"rate": "5"},
                "rate of stage 'Score' must be 0.000001 to 10000000 starts a second, got '5'",
            ),
        ],
        ids=str,
    )
    def test_a_stage(self, app: Mainspring, settings, text) -> None:
        class Ad(msgspec.Struct):
            id: int
            title: str

        class Score:
            def process(self, ad: Ad, state: None) -> Any: ...

        kind = app.entities("ad", table="ad", model=Ad)

        assert told((InvalidSetting, InvalidStage), lambda: kind.stage(**settings)(Score)) == text

    @pytest.mark.parametrize(
        ("method", "meant"), [("shoud_process", "should_process"), ("save", "saved")]
    )
    def test_a_stage_with_a_misspelt_method(self, app: Mainspring, method, meant) -> None:
        class Ad(msgspec.Struct):
            id: int

        class Score:
            async def process(self, ad: Ad, state: None) -> Any: ...

        setattr(Score, method, Score.process)

        assert told(
            InvalidStage, lambda: app.entities("ad", table="ad", model=Ad).stage(Score)
        ) == (
            f"stage 'Score' has a method {method!r}, which nobody calls; did you mean {meant!r}? if "
            "it is one of your own, begin its name with '_'"
        )
        delattr(Score, method)
        app.kinds["ad"].stage(Score)

    def test_times_of_an_outcome_have_a_zone(self) -> None:
        assert told(InvalidTime, lambda: Untouched(visit_at=NAIVE)) == (
            "visit_at must be a datetime with a time zone, got datetime.datetime(2030, 1, 1, 12, 0); "
            "use mainspring.now() + ... or .replace(tzinfo=...)"
        )

    def test_a_signal(self, app: Mainspring) -> None:
        assert told(InvalidSetting, lambda: app.signal("paid", True)) == (  # type: ignore[arg-type]
            "the type of signal 'paid' cannot travel as JSON: Type 'True' is not supported; such as "
            "bool, or a dataclass"
        )

    async def test_a_worker(self, app: Mainspring) -> None:
        with pytest.raises(InvalidSetting) as caught:
            async with app.worker(concurency=3):
                pass

        assert str(caught.value) == (
            "a worker has no setting 'concurency'; did you mean 'concurrency'?"
        )


class TestFunctions:
    def test_a_method_has_no_object(self, app: Mainspring) -> None:
        class Shop:
            def sell(self, n: int) -> None: ...

        assert told(InvalidTask, lambda: app.task(Shop.sell)) == (
            "task 'sell' has the parameter self: a worker has no object to call a method on; declare "
            "a function, or a @staticmethod"
        )

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
    def test_a_result_that_was_not_awaited(self, app: Mainspring) -> None:
        async def later() -> None: ...

        @app.task
        async def fetch() -> Any: ...

        coroutine = later()
        text = told(InvalidArguments, lambda: fetch.signature.encode_result(coroutine))
        coroutine.close()

        assert text.endswith("got coroutine; is an await missing?")

    @pytest.mark.parametrize("call", [(1,), 1, "n"])
    def test_calls_of_many_are_dicts(self, app: Mainspring, call: Any) -> None:
        @app.task
        def sell(n: int) -> None: ...

        assert told(InvalidArguments, lambda: list(sell._bind_all([call]))) == (
            f"call 0 of enqueue_many must be a dict of arguments by name (n), got {call!r}"
        )

    async def test_a_wait_is_seconds(self, app: Mainspring) -> None:
        with pytest.raises(InvalidSetting, match=r"timeout must be seconds .*, got '5'"):
            await wait_for(None, None, None, "5")  # type: ignore[arg-type]


class TestHabits:
    @pytest.mark.parametrize(
        ("setting", "hint"),
        [
            ("max_retries", "; write @app.task(retry=RetryPolicy(attempts=...))"),
            ("eta", "; each call says it: task.options(at=... (a datetime with its zone))"),
            ("wass", "; did you mean 'was'?"),
        ],
    )
    def test_a_setting_of_another_library(self, app: Mainspring, setting: str, hint: str) -> None:
        settings: Any = {setting: 5}

        @app.task(name="old", was=["older"])
        def old() -> None: ...

        assert told(InvalidTask, lambda: app.task(**settings)(print)) == (
            f"task 'print' has no setting {setting!r}{hint}"
        )

    def test_a_batch_task_without_its_parentheses(self, app: Mainspring) -> None:
        def index(pages: list[int]) -> None: ...

        bare: Any = app.batch_task
        assert told(InvalidTask, lambda: bare(index)).endswith("write @app.batch_task(size=...)")

    def test_results_of_ids_instead_of_handles(self, app: Mainspring) -> None:
        ids: Any = ["7f"]
        said = "app.results takes handles, as enqueue returns them, got '7f' as number 0"
        assert told(InvalidArguments, lambda: app.results(ids)) == said
        assert told(InvalidArguments, lambda: app.results_sync(ids)) == said

    def test_a_blueprint_has_no_processes(self) -> None:
        shop: Any = Blueprint("shop.")
        assert told(AttributeError, lambda: shop.process) == (
            "a blueprint has no 'process', only tasks and hooks: declare it with app.process in a "
            "function of @blueprint.on_include, which gets the application"
        )
