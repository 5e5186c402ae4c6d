"""The pure decision of a check: gates, rewinds, retries, pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from mainspring.errors import InvalidSetting
from mainspring.reactive.decide.decide import (
    Current,
    Decision,
    Definition,
    Fire,
    Rewind,
    SeenValue,
    View,
    Wait,
    check_policy,
    chunks_to_do,
    decide,
    fact_of,
    facts_of,
    leaf_bits,
    leaves_json,
)
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.gates import (
    StoredGates,
    cron,
    dump_gates,
    load_gates,
    make_gates,
)
from mainspring.reactive.model.triggers import ChunkDelta, Delay, Delta, all_of
from mainspring.reactive.model.values import Param

ORDERS, FX = Param("dwh.orders", "loaded_to"), Param("ext.fx", "loaded_to")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


def look(definition: Definition, *, at: datetime = NOW, **view: Any) -> Decision:
    view.setdefault("current", {ORDERS.key: Current(NOW, 0, NOW)})
    return decide(definition, View(**view), at)


def gated(**gates: Any) -> Definition:
    return Definition(Delta(ORDERS), make_gates(**gates))


def test_a_true_trigger_fires_and_says_why() -> None:
    """R2, R17: the news is the cause."""
    seen = {ORDERS.key: SeenValue(NOW - DAY)}

    decision = look(Definition(ChunkDelta(ORDERS, "day")), seen=seen)
    assert isinstance(decision, Fire)
    assert decision.cause == "dwh.orders.loaded_to 2026-03-09 -> 2026-03-10"


def test_a_false_trigger_waits() -> None:
    """R2."""
    decision = look(Definition(Delta(ORDERS)), seen={ORDERS.key: SeenValue(NOW)})

    assert isinstance(decision, Wait)
    assert decision.again_at is None
    assert decision.verdict is not None
    assert leaf_bits(decision.verdict) == (False,)
    micros = (NOW - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    told = [{"leaf": "Delta(dwh.orders.loaded_to)", "true": False, "value": micros, "last": micros}]
    assert leaves_json(decision.verdict) == told


def test_a_failed_task_is_not_looked_at_before_its_backoff_is_over() -> None:
    """R10: an advance does not bring the retry forward."""
    decision = look(Definition(Delta(ORDERS)), retry_at=NOW + MINUTE)

    assert decision == Wait(None, NOW + MINUTE, "backing off after a failure")
    assert isinstance(look(Definition(Delta(ORDERS)), retry_at=NOW), Fire)


def test_a_task_that_no_delta_paces_rests_a_second() -> None:
    """R15: between the end of a run and the next firing."""
    spinning = Definition(Delay(ORDERS, "1d"))
    paced = Definition(all_of(Delay(ORDERS, "1d"), Delta(ORDERS)))

    assert look(spinning, ended_at=NOW).again_at == NOW + timedelta(seconds=1)  # type: ignore[union-attr]
    assert isinstance(look(spinning, ended_at=NOW - timedelta(seconds=1)), Fire)
    assert isinstance(look(paced, ended_at=NOW), Fire)


def test_debounce_waits_for_quiet() -> None:
    """R16: so long after the last change of any param of the trigger."""
    definition = Definition(all_of(Delta(ORDERS), Delta(FX)), make_gates(debounce="5m"))
    current = {ORDERS.key: Current(NOW, 0, NOW - HOUR), FX.key: Current(NOW, 0, NOW - 2 * MINUTE)}

    held = look(definition, current=current, verdict=True, since=NOW - 2 * MINUTE)
    assert isinstance(held, Wait)
    assert held.again_at == NOW + 3 * MINUTE
    assert held.verdict is not None
    assert held.verdict.true
    assert isinstance(look(definition, current=current, at=NOW + 3 * MINUTE), Fire)


def test_debounce_ends_under_a_steady_stream() -> None:
    """R16, trap: ten times the debounce after the trigger came true, whatever still changes."""
    definition = gated(debounce="5m")
    since = NOW - 50 * MINUTE

    assert isinstance(look(definition, verdict=True, since=since), Fire)
    held = look(definition, verdict=True, since=since + MINUTE)
    assert isinstance(held, Wait)
    assert held.again_at == NOW + MINUTE
    assert "at most 50m after it came true" in held.cause
    earlier = look(gated(debounce="5m", debounce_max="6m"), verdict=True, since=NOW - 4 * MINUTE)
    assert earlier.again_at == NOW + 2 * MINUTE  # type: ignore[union-attr]


def test_a_minimum_interval_counts_from_the_last_firing() -> None:
    """R16."""
    assert look(gated(min_interval="1h"), fired_at=NOW - 59 * MINUTE).again_at == NOW + MINUTE  # type: ignore[union-attr]
    assert isinstance(look(gated(min_interval="1h"), fired_at=NOW - HOUR), Fire)
    assert isinstance(look(gated(min_interval="1h")), Fire)


def test_not_before_waits_for_the_tick_after_the_last_firing() -> None:
    """R16: cron and data: once a tick at most, and never before it."""
    six = gated(not_before=cron("0 6 * * *", zone="Europe/Berlin"))
    tick = datetime(2026, 3, 11, 5, tzinfo=UTC)

    assert look(six, fired_at=NOW).again_at == tick  # type: ignore[union-attr]
    assert isinstance(look(six, fired_at=NOW - DAY), Fire), "today's tick has passed"
    first = look(six, verdict=True, since=NOW - MINUTE)
    assert first.again_at == tick, "a first run waits for a tick too"  # type: ignore[union-attr]
    assert isinstance(look(six, verdict=True, since=NOW, at=tick), Fire)


def test_of_several_gates_the_last_to_open_counts() -> None:
    """R16."""
    gates = gated(min_interval="1h", debounce="5m")
    held = look(gates, fired_at=NOW - MINUTE, verdict=True, since=NOW)

    assert held.again_at == NOW + 59 * MINUTE  # type: ignore[union-attr]
    assert "min_interval" in held.cause


def test_gates_are_stored() -> None:
    for gates in (
        make_gates(),
        make_gates(not_before="0 6 * * *", debounce="5m", debounce_max="1h", min_interval="2h"),
        make_gates(not_before=cron("0 6 * * MON", "Europe/Berlin")),
    ):
        assert load_gates(convert(dump_gates(gates), StoredGates)) == gates


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"debounce": "0s"}, "debounce must be more than zero, got '0s'"),
        ({"debounce_max": "5m"}, "debounce_max bounds debounce"),
        ({"debounce": "5m", "debounce_max": "1m"}, "is not shorter"),
        ({"min_interval": -1}, "min_interval takes a timedelta or a text"),
        ({"not_before": "at six"}, "cron line 'at six'"),
        ({"not_before": 6}, "not_before takes cron('0 6 * * *', zone=...), got 6"),
    ],
)
def test_gates_that_cannot_be_are_refused(given: dict[str, Any], says: str) -> None:
    """R16."""
    with pytest.raises(InvalidSetting) as caught:
        make_gates(**given)
    assert says in str(caught.value)


def test_a_rewind_is_done_again_where_the_task_says_so() -> None:
    """R13: Delta uses the lesser of last seen and the rewind's target."""
    seen = {ORDERS.key: SeenValue(NOW, 2)}
    rewinds = {
        ORDERS.key: [Rewind(2, NOW - 9 * DAY), Rewind(3, NOW - 3 * DAY), Rewind(4, NOW - 2 * DAY)]
    }
    current = {ORDERS.key: Current(NOW - 2 * DAY, 4)}

    def last(policy: Any) -> object:
        definition = Definition(Delta(ORDERS), on_rewind=policy)
        return facts_of(definition, View(current, seen, rewinds))[ORDERS.key].last

    assert last("report") == NOW
    assert last("hold") == NOW
    assert last("rerun") == NOW - 3 * DAY, (
        "the second rewind was seen, the least of the others counts"
    )
    rerun = Definition(Delta(ORDERS), on_rewind="rerun")
    assert isinstance(look(rerun, seen=seen, rewinds_since=rewinds, current=current), Fire)


def test_a_held_task_waits_for_a_repair() -> None:
    """R13: on_rewind="hold" is not evaluated until the rewind was taken up."""
    definition = Definition(Delta(ORDERS), on_rewind="hold")
    current = {ORDERS.key: Current(NOW, 1)}

    held = look(definition, seen={ORDERS.key: SeenValue(NOW - DAY, 0)}, current=current)
    assert isinstance(held, Wait)
    assert held.verdict is None
    assert held.cause.startswith("held: dwh.orders.loaded_to was rewound; repair it")
    assert isinstance(
        look(definition, seen={ORDERS.key: SeenValue(NOW - DAY, 1)}, current=current), Fire
    )
    assert isinstance(look(definition, current=current), Fire), "nothing was seen yet"


def test_restated_chunks_are_brought_without_moving_the_value() -> None:
    """R13: late data: the value stays, the chunks are done again, and then no more."""
    late = (NOW - 5 * DAY, NOW - 4 * DAY, NOW + DAY)
    rewinds = [Rewind(1, NOW, late)]
    day = Chunk("day")
    fact = fact_of(NOW, SeenValue(NOW, 0), rewinds, "rerun")

    assert fact.restated
    days = chunks_to_do(day, fact, SeenValue(NOW, 0), rewinds)
    assert [day.show(start) for start in days] == ["2026-03-05", "2026-03-06"]
    assert not fact_of(NOW, SeenValue(NOW, 1), rewinds, "rerun").restated
    assert not fact_of(NOW, SeenValue(NOW, 0), rewinds, "report").restated


def test_a_run_is_told_its_chunks() -> None:
    """R10: later than the one seen, up to the current one; the first time the current one only."""
    day = Chunk("day")

    def days(value: datetime, last: datetime | None) -> list[str]:
        fact = fact_of(value, None if last is None else SeenValue(last), [], "report")
        return [day.show(start) for start in chunks_to_do(day, fact)]

    assert days(NOW, NOW - 3 * DAY) == ["2026-03-08", "2026-03-09", "2026-03-10"]
    assert days(NOW, NOW) == []
    assert days(NOW, None) == ["2026-03-10"]
    assert chunks_to_do(day, fact_of(5, SeenValue(4), [], "report")) == []


@given(st.integers(0, 5), st.lists(st.integers(-9, 9), max_size=5), st.integers(-9, 9))
def test_after_a_rewind_the_last_value_is_not_above_its_target(
    known: int, targets: list[int], value: int
) -> None:
    """R13, I9: until the rewinds were seen."""
    rewinds = [Rewind(number, to) for number, to in enumerate(targets, start=1)]
    fact = fact_of(value, SeenValue(5, known), rewinds, "rerun")

    unseen = [r.to for r in rewinds if r.number > known]
    assert fact.last == min([5, *unseen])


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(
        InvalidSetting, match="on_rewind is one of 'report', 'rerun', 'hold', not 'ignore'"
    ):
        check_policy("ignore")
    with pytest.raises(InvalidSetting, match="first_run is 'now'"):
        Definition(Delta(ORDERS), first_run="later")  # type: ignore[arg-type]
