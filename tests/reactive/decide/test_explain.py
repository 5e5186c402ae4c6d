"""Why: the tree, and the next fact that would change it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import combinations

from hypothesis import assume
from trigger_oracle import BEGIN, END, facts, holds, leaves, moments, trees

from draws import drawn
from mainspring.reactive.decide.decide import Current, Definition, SeenValue, View
from mainspring.reactive.decide.evaluate import Fact, evaluate
from mainspring.reactive.decide.explain import Around, PastCheck, Producer, SetBy, explain, lines_of
from mainspring.reactive.decide.needs import Need, needs_of
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.gates import make_gates
from mainspring.reactive.model.plain import caught_up, fresh, new_data, new_day, new_hour, new_week
from mainspring.reactive.model.triggers import (
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Leaf,
    RefDelay,
    Trigger,
    all_of,
    any_of,
    params_of,
)
from mainspring.reactive.model.values import MICROSECOND, Param, Value

ORDERS, FX = Param("dwh.orders", "loaded_to"), Param("ext.fx", "loaded_to")
BERLIN = Chunk("day", "Europe/Berlin")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def apply(known: dict[str, Fact], need: Need, back: int = 0) -> dict[str, Fact]:
    """What is known once a need is met, or missed by `back` of the smallest step."""
    assert need.param is not None
    value: Value | None = need.value
    if need.version is not None:
        value = need.version + "x"
    elif need.up_to is not None:
        value = need.up_to
    elif value is None:
        value = {"instant": NOW, "integer": 0, "version": "x"}[need.param.kind]  # type: ignore[assignment]
    elif isinstance(value, datetime):
        value -= back * MICROSECOND
    elif isinstance(value, int):
        value -= back
    fact = known[need.param.key]
    return {**known, need.param.key: Fact(value, fact.last)}


@drawn(leaves, facts, moments, few=100, many=400)
def test_the_next_fact_flips_a_leaf_and_nothing_less_does(
    leaf: Leaf, known: dict[str, Fact], now: datetime
) -> None:
    """R17: the exact value, to the microsecond."""
    verdict = evaluate(leaf, known, now)
    needs = needs_of(verdict)
    if verdict.true:
        assert needs == ()
        return
    if needs[0].param is None:
        assert needs[0].at is not None
        assert evaluate(leaf, known, needs[0].at).true
        assert not evaluate(leaf, known, needs[0].at - MICROSECOND).true
        return
    met = known
    for need in needs:
        met = apply(met, need)
    if len(needs) == 1 and needs[0].value is not None:
        assert evaluate(leaf, met, now).true
        assert not evaluate(leaf, apply(known, needs[0], back=1), now).true


Situation = tuple[dict[str, Fact], datetime]


def after(known: dict[str, Fact], now: datetime, needs: Iterable[Need]) -> Situation:
    """What is known, and when it is, once these facts have come."""
    for need in needs:
        if need.param is None:
            assert need.at is not None
            now = max(now, need.at)
        else:
            known = apply(known, need)
    return known, now


def is_within(known: dict[str, Fact], now: datetime) -> bool:
    """The oracle counts the starts of chunks of some weeks only."""
    moments = [now, *(fact.value for fact in known.values())]
    return all(BEGIN <= m <= END for m in moments if isinstance(m, datetime))


@drawn(trees, facts, moments, few=120, many=600)
def test_the_facts_named_flip_the_verdict_and_no_fewer_do(
    trigger: Trigger, known: dict[str, Fact], now: datetime
) -> None:
    """R17: by brute force. All together they turn the tree true, and no proper part of them does."""
    needs = needs_of(evaluate(trigger, known, now))
    assert bool(needs) != holds(trigger, known, now)
    assert needs != (Need(None),), "nothing that is drawn lies at the end of time"
    if not needs:
        return
    whole = after(known, now, needs)
    assume(is_within(*whole))

    assert holds(trigger, *whole)
    for count in range(len(needs)):
        for part in combinations(needs, count):
            assert not holds(trigger, *after(known, now, part)), part


@drawn(trees, facts, moments, few=50, many=400)
def test_no_single_fact_flips_what_is_said_to_want_several(
    trigger: Trigger, known: dict[str, Fact], now: datetime
) -> None:
    """R17: the shortest list, against every value of every param that could matter."""
    needs = needs_of(evaluate(trigger, known, now))
    if len(needs) < 2 or not is_within(*after(known, now, needs)):
        return
    starts = [BEGIN + timedelta(hours=12 * n) for n in range(140)]
    there = [fact.value for fact in known.values()] + [need.value for need in needs]
    for key, fact in known.items():
        for value in {*there, *starts, now, *range(-12, 12), "other"} - {None}:
            low = fact.value
            if low is not None and (type(low) is not type(value) or value < low):
                continue
            if any(p.key == key and not is_of(value, p) for p in params_of(trigger)):
                continue
            told = {**known, key: Fact(value, fact.last)}
            assert not holds(trigger, told, now), (key, value)


def is_of(value: object, param: Param) -> bool:
    return isinstance(value, {"instant": datetime, "integer": int, "version": str}[param.kind])


def test_the_trigger_of_the_guide_names_both_facts_that_it_waits_for() -> None:
    """R17: a new day of orders turns the other leaf false, until the rates are there too."""
    trigger = all_of(ChunkDelta(ORDERS, BERLIN), caught_up(FX, with_=ORDERS, chunk=BERLIN))
    ten = {ORDERS.key: Fact(NOW, NOW), FX.key: Fact(NOW, NOW)}

    needs = needs_of(evaluate(trigger, ten, NOW))

    assert [str(need) for need in needs] == [
        "dwh.orders.loaded_to >= 2026-03-10 23:00:00Z",
        "ext.fx.loaded_to >= 2026-03-10 23:00:00Z",
    ]


def test_of_lists_of_one_length_the_nearest_is_named() -> None:
    """R17: the next hour comes before the next week."""
    trigger = any_of(new_week(ORDERS), new_hour(ORDERS), new_day(ORDERS))

    [need] = needs_of(evaluate(trigger, {ORDERS.key: Fact(NOW, NOW)}, NOW))

    assert str(need) == "dwh.orders.loaded_to >= 2026-03-10 13:00:00Z"


def test_a_param_without_a_value_may_have_one_that_is_too_high() -> None:
    """R17: the bound is named, instead of a second fact."""
    trigger = RefDelay(ORDERS, FX, HOUR)

    [need] = needs_of(evaluate(trigger, {ORDERS.key: Fact(NOW - DAY)}, NOW))

    assert str(need) == "ext.fx.loaded_to to have a value, 2026-03-09 13:00:00Z at most"


def test_a_tree_with_very_many_ways_is_explained_all_the_same() -> None:
    """R17: each any_of for itself."""
    params = [Param("dwh", f"p{n}") for n in range(12)]
    trigger = all_of(*(any_of(new_data(p), new_week(p), new_hour(p)) for p in params))
    known = {p.key: Fact(NOW, NOW) for p in params}

    needs = needs_of(evaluate(trigger, known, NOW))

    assert holds(trigger, *after(known, NOW, needs))
    assert len(needs) == len(params)


def test_a_waiting_task_names_the_fact_and_who_brings_it() -> None:
    """R17: values, verdict, since, until, the next fact with its producer and usual duration."""
    trigger = all_of(
        ChunkDelta(ORDERS, BERLIN),
        ChunkDelay(ORDERS, BERLIN, 1),
        ChunkRefDelay(FX, ORDERS, BERLIN, 0),
    )
    view = View(
        current={ORDERS.key: Current(NOW - 10 * HOUR), FX.key: Current(NOW - DAY)},
        seen={ORDERS.key: SeenValue(NOW - DAY), FX.key: SeenValue(NOW - DAY)},
    )
    stored = [
        {"leaf": str(leaf), "true": true}
        for leaf, true in zip(trigger.children, (True, True, False), strict=True)
    ]
    older = [{**leaf, "true": False} for leaf in stored]
    around = Around(
        set_by={ORDERS.key: SetBy(NOW - HOUR, "load_orders"), FX.key: SetBy(NOW - DAY, "load_fx")},
        producers={FX.key: [Producer("load_fx", NOW - timedelta(minutes=4), timedelta(minutes=6))]},
        past=[PastCheck(NOW - HOUR, stored), PastCheck(NOW - 9 * HOUR, older)],
    )

    why = explain("daily", Definition(trigger), view, NOW, around=around)
    assert lines_of(why) == [
        "daily: the trigger is false",
        "  NO  all_of",
        "    YES ChunkDelta: a later day in Europe/Berlin",
        "        dwh.orders.loaded_to: 2026-03-09 -> 2026-03-10; "
        "set 2026-03-10 11:00:00Z by load_orders; true since 2026-03-10 11:00:00Z",
        "    YES ChunkDelay: at most 1 x day in Europe/Berlin behind now",
        "        dwh.orders.loaded_to: 2026-03-10; set 2026-03-10 11:00:00Z by load_orders; "
        "true since 2026-03-10 11:00:00Z; true until 2026-03-11 23:00:00Z",
        "    NO  ChunkRefDelay: at most 0 x day in Europe/Berlin behind dwh.orders.loaded_to",
        "        ext.fx.loaded_to: 2026-03-09, the other 2026-03-10; "
        "set 2026-03-09 12:00:00Z by load_fx; false since 2026-03-10 03:00:00Z; "
        "needs ext.fx.loaded_to >= 2026-03-09 23:00:00Z",
        "  next: ext.fx.loaded_to >= 2026-03-09 23:00:00Z",
        "        load_fx brings it, running for 4m, usually takes 6m",
    ]


def test_a_true_task_that_is_held_names_the_moment() -> None:
    """R16, R17: the gate, and when it opens."""
    definition = Definition(new_data(ORDERS), make_gates(min_interval="1h"))
    view = View({ORDERS.key: Current(NOW)}, fired_at=NOW - timedelta(minutes=50))

    why = explain("daily", definition, view, NOW)
    assert why.true
    assert "but held: min_interval: 1h after the last firing" in lines_of(why)[0]
    assert why.next[0].text.startswith("time: 2026-03-10 12:10:00Z")


def test_what_time_has_turned_is_false_since_then() -> None:
    """R17, trap: the stored verdict may be old; the live one counts."""
    definition = Definition(fresh(ORDERS, "1h"))
    view = View({ORDERS.key: Current(NOW - 3 * HOUR)}, verdict=True, since=NOW - 3 * HOUR)

    why = explain("daily", definition, view, NOW)
    assert not why.true
    assert why.tree.since == NOW - 2 * HOUR
    assert why.next[0].text == "dwh.orders.loaded_to >= 2026-03-10 11:00:00Z"


def test_of_several_ways_the_shortest_is_named() -> None:
    """R17: the shortest list of facts."""
    tree = any_of(all_of(new_data(ORDERS), new_data(FX)), caught_up(FX, with_=ORDERS))
    why = explain(
        "t", Definition(tree), View({ORDERS.key: Current(NOW)}, {ORDERS.key: SeenValue(NOW)}), NOW
    )

    assert [fact.text for fact in why.next] == ["ext.fx.loaded_to >= 2026-03-10 12:00:00Z"]


def test_a_rewound_and_a_far_ahead_param_are_named() -> None:
    """R13, R17."""
    view = View({ORDERS.key: Current(NOW + 90 * DAY, 1)}, {ORDERS.key: SeenValue(NOW, 0)})
    around = Around(set_by={ORDERS.key: SetBy(NOW, "ann", ahead=True)})

    why = explain(
        "t", Definition(new_day(ORDERS)), view, NOW, around=around, notes=["it is paused"]
    )
    assert why.notes[0] == "it is paused"
    assert "was rewound since it was seen (report)" in why.notes[1]
    assert "far ahead of the clock" in why.notes[2]


def test_one_that_is_ahead_waits_for_what_it_must_be_together_with() -> None:
    """R17: it cannot go back, so the other must come."""
    trigger = ChunkRefDelay(FX, ORDERS, BERLIN)
    known = {FX.key: Fact(NOW + DAY), ORDERS.key: Fact(NOW)}

    assert [str(need) for need in needs_of(evaluate(trigger, known, NOW))] == [
        "dwh.orders.loaded_to >= 2026-03-10 23:00:00Z"
    ]
