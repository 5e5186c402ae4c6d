"""T12, T7: the text of a failure has its notes and what led to it, and no value that a library quotes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import psycopg
import pydantic
import pytest
import sqlalchemy

from mainspring import Mainspring, RetryPolicy
from mainspring.failure_text import ERROR_BYTES, describe, heads
from mainspring.operate.history import HistoryFilter
from mainspring.testing import run_until_idle

C = "CAN" + "ARY"  # no line of this file, which a traceback shows, has it as a whole


class PaymentError(Exception):
    pass


def caught(function: Any) -> BaseException:
    with pytest.raises(BaseException) as found:  # noqa: PT011
        function()
    return found.value


def pay() -> None:
    try:
        try:
            raise LookupError("no card")
        except LookupError:
            raise ValueError("no account")  # noqa: B904 - its context is what is looked for
    except ValueError as error:
        failure = PaymentError("cannot pay")
        failure.add_note("of the shop in Oslo")
        raise failure from error


def test_a_failure_is_told_with_its_notes_its_cause_and_its_context() -> None:
    """T12."""
    name, text = describe(caught(pay))
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    assert name == "test_failure_text.PaymentError"
    assert lines == [
        "test_failure_text.PaymentError: cannot pay",
        "note: of the shop in Oslo",
        "caused by ValueError: no account",
        "while handling LookupError: no card",
    ]
    assert text.count(", in pay\n") == 3
    assert heads(text) == "; ".join(lines)


def test_a_suppressed_context_is_not_told_and_a_circle_ends() -> None:
    def hides() -> None:
        try:
            raise LookupError(C)
        except LookupError:
            raise ValueError("no account") from None

    assert C not in describe(caught(hides))[1]
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert describe(one)[1] == "ValueError: one\ncaused by ValueError: two"


def test_whatever_notes_and_causes_are_the_text_has_its_bound() -> None:
    error = ValueError("x")
    error.__notes__ = ["n" * 10_000] * 100
    error.__cause__ = RuntimeError("y" * 100_000)
    assert len(describe(error)[1].encode()) <= ERROR_BYTES
    error.__notes__ = 7  # type: ignore[assignment]
    assert describe(error)[1].startswith("ValueError: x\ncaused by RuntimeError: yyy")


class Card(pydantic.BaseModel):
    number: int


class Payment(msgspec.Struct):
    how: Literal["card", "cash"]


def test_no_value_that_a_library_quotes_is_told_of_a_cause(database_url: str) -> None:
    """T12: of pydantic, msgspec, psycopg, and of SQLAlchemy and Django around a driver."""
    from django.db import utils

    engine = sqlalchemy.create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))

    def sql() -> None:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("select cast(:c as int)"), {"c": f"{C}-SA"})

    def django() -> None:
        with psycopg.connect(database_url) as connection:
            try:
                connection.execute("select cast(%s as int)", (f"{C}-DJ",))
            except psycopg.Error as error:
                raise utils.DataError(*error.args) from error

    faults = [
        lambda: Card.model_validate({"number": f"{C}-PD, input_type=7]"}),
        lambda: msgspec.json.decode(b'{"how": f"{C}-MS"}', type=Payment),
        sql,
        django,
    ]
    for each in faults:
        fault = caught(each)
        outer = RuntimeError("outer")
        outer.__cause__ = fault
        for told in (describe(fault)[1], describe(outer)[1]):
            assert C not in told, told
            assert type(fault).__name__ in told
    assert "Input should be a valid integer" in describe(caught(faults[0]))[1]
    assert "invalid input syntax for type integer" in describe(caught(sql))[1]
    engine.dispose()


async def test_history_keeps_the_cause_and_the_notes(
    app: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    """T7, T12: of a retry too, whose line in the log has them without the frames."""

    @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
    async def charge() -> None:
        pay()

    await charge.enqueue()
    await run_until_idle(app)

    errors = [past.error or "" for past in await app.operator.history(HistoryFilter(), limit=10)]
    assert len(errors) == 2
    for error in errors:
        assert "note: of the shop in Oslo\n" in error
        assert "caused by ValueError: no account\n" in error
    (retried,) = [r for r in caplog.records if getattr(r, "outcome", "") == "retry"]
    assert vars(retried)["error"].endswith(
        "cannot pay; note: of the shop in Oslo; caused by ValueError: no account; "
        "while handling LookupError: no card"
    )
