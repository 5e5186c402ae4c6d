"""Static checks: exact where the rules say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from trigger_oracle import INSTANTS, INTEGERS, VERSIONS, facts, moments, trees

from draws import drawn
from mainspring import Mainspring
from mainspring.reactive.decide.evaluate import Fact, evaluate
from mainspring.reactive.decide.lint import Declared, check_task, check_tasks, is_reliable, may_spin
from mainspring.reactive.model.triggers import (
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    Trigger,
    all_of,
    any_of,
)
from mainspring.reactive.model.values import Param, Value

ORDERS = Param("dwh.orders", "loaded_to", external=True)
FX = Param("ext.fx", "loaded_to", external=True)
BUILT = Param("mart.daily", "built_to")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def codes(*tasks: Declared) -> list[str]:
    return [finding.code for finding in check_tasks(tasks)]


@drawn(trees, few=60, many=300)
def test_a_trigger_may_spin_if_it_is_true_when_nothing_is_new(trigger: Trigger) -> None:
    """R15, exact: everything seen, everything in time: all Deltas false, all other leaves true."""
    at_rest: dict[str, Value] = {param.key: NOW for param in INSTANTS}
    at_rest |= {param.key: 7 for param in INTEGERS}
    at_rest |= {param.key: "a" for param in VERSIONS}
    known = {key: Fact(value, value) for key, value in at_rest.items()}

    assert may_spin(trigger) == evaluate(trigger, known, NOW).true


@drawn(trees, facts, moments, few=60, many=300)
def test_a_trigger_that_cannot_spin_is_never_true_without_a_delta(
    trigger: Trigger, known: dict[str, Fact], now: datetime
) -> None:
    """R15: against every state that can be drawn."""
    verdict = evaluate(trigger, known, now)
    by_delta = any(
        leaf.true and isinstance(leaf.trigger, Delta | ChunkDelta) for leaf in verdict.leaves()
    )

    assert not verdict.true or by_delta or may_spin(trigger)


def test_spin_is_told_with_the_child_that_allows_it() -> None:
    """R15: all: one child with Delta is enough; any: every child needs it."""
    assert not may_spin(all_of(Delay(ORDERS, "1d"), Delta(ORDERS)))
    assert may_spin(any_of(Delay(ORDERS, "1d"), Delta(ORDERS)))
    assert not may_spin(any_of(all_of(Delay(ORDERS, "1d"), Delta(FX)), Delta(ORDERS)))
    trigger = any_of(Delta(ORDERS), Delay(FX, "1d"))
    [finding] = check_task(Declared("t", trigger, expect_within=timedelta(days=1)))
    assert finding.code == "MS101"
    assert "may run without pause: Delay(ext.fx.loaded_to <= 1d) needs no Delta" in finding.text


def test_an_unreliable_trigger_wants_an_expectation() -> None:
    """R14: Delta will fire some day, Delay and RefDelay may never."""
    gate = all_of(Delta(ORDERS), ChunkRefDelay(FX, ORDERS, "day", 0))

    assert is_reliable(any_of(Delta(ORDERS), Delay(FX, "1d")))
    assert not is_reliable(gate)
    assert codes(Declared("t", gate)) == ["MS104"]
    assert codes(Declared("t", gate, expect_within=timedelta(hours=26))) == []
    assert codes(Declared("t", ChunkDelta(ORDERS, "day"))) == []


def test_a_circle_is_printed() -> None:
    """R15: tasks that produce and consume in a circle may start each other for ever."""
    a, b, c = (Param("x", name) for name in "abc")
    tasks = [
        Declared("one", Delta(a), (b,)),
        Declared("two", Delta(b), (c,)),
        Declared("three", all_of(Delta(c), Delta(ORDERS)), (a,)),
        Declared("aside", Delta(a)),
    ]

    [finding] = check_tasks(tasks)
    assert finding.code == "MS102"
    assert "one -> x.b -> two -> x.c -> three -> x.a -> one; they" in finding.text


def test_a_chain_is_no_circle() -> None:
    a, b = Param("x", "a"), Param("x", "b")
    tasks = [
        Declared("one", Delta(ORDERS), (a,)),
        Declared("two", Delta(a), (b,)),
        Declared("three", Delta(b)),
    ]

    assert check_tasks(tasks) == []


def test_a_product_in_the_own_trigger_is_warned_about() -> None:
    """R15: bad input: each run may start the next."""
    assert codes(Declared("t", all_of(Delta(ORDERS), RefDelay(BUILT, ORDERS, "1d")), (BUILT,))) == [
        "MS103",
        "MS104",
    ]


def test_a_doubtful_trigger_is_warned_about_where_it_is_declared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R15: without pause, its own product, never: each said when the task is declared."""
    app = Mainspring("postgresql://nobody@localhost:1/nowhere")
    param = app.data("mart.daily").param("built_to")

    @app.task(when=Delay(param, "1d"), produces=[param])
    async def daily() -> None: ...

    warned = [r for r in caplog.records if r.msg == "reactive.check"]
    assert {r.__dict__["task"] for r in warned} == {"daily"}
    assert [r.__dict__["finding"][:5] for r in warned] == ["MS101", "MS103", "MS104"]


def test_a_param_that_nobody_produces_is_named_with_the_nearest() -> None:
    """R9: produces is what lineage, reservations and circles are told from."""
    typo = Param("mart.dayly", "built_to")
    tasks = [Declared("daily", Delta(ORDERS), (BUILT,)), Declared("weekly", Delta(typo))]

    [finding] = check_tasks(tasks)
    assert finding.code == "MS105"
    assert "nobody produces mart.dayly.built_to; did you mean mart.daily.built_to?" in finding.text
    assert check_tasks(tasks, known=["mart.dayly.built_to"]) == []
