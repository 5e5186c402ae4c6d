"""Triggers: what they mean, against a brute-force oracle, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from trigger_oracle import facts, holds, moments, trees

from draws import drawn
from mainspring.errors import InvalidTrigger, UnknownFormat
from mainspring.reactive.decide.evaluate import Fact, evaluate
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.codec import dump, fingerprint, load
from mainspring.reactive.model.plain import all_arrived
from mainspring.reactive.model.triggers import (
    AllOf,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    Trigger,
    all_of,
    any_of,
    check_trigger,
    leaves_of,
    params_of,
)
from mainspring.reactive.model.values import Param

ORDERS, FX = Param("dwh.orders", "loaded_to"), Param("ext.fx", "loaded_to")
COUNT, OTHER = Param("dwh.orders", "count", "integer"), Param("dwh.rides", "count", "integer")
SCHEMA = Param("dwh.orders", "schema", "version")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def true(trigger: Trigger, now: datetime = NOW, **known: Fact) -> bool:
    keys = {"orders": ORDERS, "fx": FX, "count": COUNT, "other": OTHER, "schema": SCHEMA}
    return evaluate(trigger, {keys[name].key: fact for name, fact in known.items()}, now).true


@drawn(trees, facts, moments, few=100, many=400)
def test_verdicts_are_those_of_the_letter_of_the_rules(
    trigger: Trigger, known: dict[str, Fact], now: datetime
) -> None:
    """R2, R3, R4, R5: a million ways to be wrong by one."""
    assert evaluate(trigger, known, now).true == holds(trigger, known, now)


@drawn(trees, facts, moments, moments, few=60, many=300)
def test_time_alone_turns_nothing_true_but_what_was_announced(
    trigger: Trigger, known: dict[str, Fact], one: datetime, other: datetime
) -> None:
    """R7: a false tree is looked at again at `again_at`, and at no other moment without a change."""
    now, then = sorted((one, other))
    verdict = evaluate(trigger, known, now)

    if not verdict.true and evaluate(trigger, known, then).true:
        assert verdict.again_at is not None
        assert now < verdict.again_at <= then


@drawn(trees, facts, moments, moments, few=60, many=300)
def test_a_true_verdict_says_until_when(
    trigger: Trigger, known: dict[str, Fact], now: datetime, then: datetime
) -> None:
    """R17: true until then; without such a moment, time alone never turns it false."""
    verdict = evaluate(trigger, known, now)
    if not verdict.true:
        assert verdict.until is None
        return
    if verdict.until is None:
        assert then < now or evaluate(trigger, known, then).true
        return
    assert verdict.until >= now
    assert evaluate(trigger, known, max(now, verdict.until - TICK)).true
    # Leaves of one tree may take over from each other: only the end of an all_of is exact.
    if not isinstance(trigger, AllOf) or all(not hasattr(c, "children") for c in trigger.children):
        assert not evaluate(trigger, known, verdict.until + TICK).true


@given(trees)
def test_a_stored_trigger_comes_back_as_it_was(trigger: Trigger) -> None:
    """R6: what is judged is data; no user code is needed."""
    stored = json.loads(json.dumps(dump(trigger)))

    assert load(stored) == trigger
    assert fingerprint(dump(load(stored))) == fingerprint(dump(trigger))


def test_two_dates_apart_are_not_two_days_apart() -> None:
    """R3, R4: the example of the document that the triggers come from."""
    last = datetime.fromisoformat("2021-04-23 03:51:16+00:00")
    current = datetime.fromisoformat("2021-04-25 03:27:33+00:00")

    assert true(ChunkDelta(ORDERS, "day", 2), orders=Fact(current, last))
    assert not true(Delta(ORDERS, "2d"), orders=Fact(current, last))


def test_delta_is_inclusive() -> None:
    """R3: current - last seen >= min, to the microsecond."""
    delta = Delta(ORDERS, "2d")

    assert true(delta, orders=Fact(NOW, NOW - timedelta(days=2)))
    assert not true(delta, orders=Fact(NOW, NOW - timedelta(days=2) + TICK))
    assert not true(Delta(ORDERS), orders=Fact(NOW, NOW))
    assert true(Delta(ORDERS), orders=Fact(NOW + TICK, NOW))
    assert true(Delta(COUNT, 3), count=Fact(10, 7))
    assert not true(Delta(COUNT, 3), count=Fact(10, 8))


def test_a_version_is_news_when_it_differs() -> None:
    """R3: versions have no order."""
    assert true(Delta(SCHEMA), schema=Fact("a", "b"))
    assert not true(Delta(SCHEMA), schema=Fact("a", "a"))


def test_delay_is_inclusive() -> None:
    """R3: now - current <= max, to the microsecond; a value ahead of the clock is not late."""
    assert true(Delay(ORDERS, "1h"), orders=Fact(NOW - timedelta(hours=1)))
    assert not true(Delay(ORDERS, "1h"), orders=Fact(NOW - timedelta(hours=1) - TICK))
    assert true(Delay(ORDERS, "0s"), orders=Fact(NOW + timedelta(days=9)))


def test_ref_delay_is_inclusive() -> None:
    """R3: reference - current <= max; ahead of the reference is not behind it."""
    behind = RefDelay(FX, ORDERS, "1h")

    assert true(behind, fx=Fact(NOW - timedelta(hours=1)), orders=Fact(NOW))
    assert not true(behind, fx=Fact(NOW - timedelta(hours=1) - TICK), orders=Fact(NOW))
    assert true(behind, fx=Fact(NOW + timedelta(days=9)), orders=Fact(NOW))
    assert true(RefDelay(COUNT, OTHER, 2), count=Fact(5), other=Fact(7))
    assert not true(RefDelay(COUNT, OTHER, 2), count=Fact(4), other=Fact(7))


def test_a_param_without_a_value_makes_its_trigger_false() -> None:
    """R3: on either side."""
    for trigger in (Delta(ORDERS), Delay(ORDERS, "9d"), ChunkDelay(ORDERS, "year")):
        assert not true(trigger)
    assert not true(RefDelay(FX, ORDERS, "9d"), fx=Fact(NOW))
    assert not true(RefDelay(FX, ORDERS, "9d"), orders=Fact(NOW))
    assert not true(ChunkRefDelay(FX, ORDERS, "day"), fx=Fact(NOW))


def test_a_delta_without_a_last_value_is_true_at_once() -> None:
    """R11: that leaf, not the tree."""
    both = all_of(ChunkDelta(ORDERS, "day", 3), Delay(FX, "1h"))

    assert true(ChunkDelta(ORDERS, "day", 3), orders=Fact(NOW))
    assert not true(both, orders=Fact(NOW), fx=Fact(NOW - timedelta(days=1)))


def test_without_a_number_a_chunk_leaf_means_later_or_the_same() -> None:
    """R4: a value in a later chunk is not in the same one."""
    day = timedelta(days=1)

    assert true(ChunkDelta(ORDERS, "day"), orders=Fact(NOW + day, NOW))
    assert not true(ChunkDelta(ORDERS, "day"), orders=Fact(NOW + TICK, NOW))
    assert true(ChunkDelay(ORDERS, "day"), orders=Fact(NOW))
    assert not true(ChunkDelay(ORDERS, "day"), orders=Fact(NOW + day))
    assert true(ChunkDelay(ORDERS, "day", 0), orders=Fact(NOW + day))
    assert not true(ChunkRefDelay(FX, ORDERS, "day"), fx=Fact(NOW + day), orders=Fact(NOW))
    assert true(ChunkRefDelay(FX, ORDERS, "day", 0), fx=Fact(NOW + day), orders=Fact(NOW))


def test_a_value_ahead_under_same_chunk_is_looked_at_when_its_chunk_begins() -> None:
    """R7: the one leaf that turns true by time alone, in the zone of its chunk."""
    ahead = datetime(2026, 3, 12, 5, tzinfo=UTC)
    tree = all_of(ChunkDelay(ORDERS, Chunk("day", "Europe/Berlin")), Delta(FX))
    verdict = evaluate(tree, {ORDERS.key: Fact(ahead)}, NOW)

    assert verdict.again_at == datetime(2026, 3, 11, 23, tzinfo=UTC)


def test_leaves_on_a_param_that_is_on_its_way_can_be_taken_as_true() -> None:
    """R9: what the tree would be if the producer brought it."""
    tree = all_of(Delta(ORDERS), ChunkRefDelay(FX, ORDERS, "day", 0))
    known = {ORDERS.key: Fact(NOW, NOW - timedelta(days=1)), FX.key: Fact(NOW - timedelta(days=1))}

    assert not evaluate(tree, known, NOW).true
    assert evaluate(tree, known, NOW, assume=frozenset({FX.key})).true
    assert not evaluate(tree, {}, NOW, assume=frozenset({FX.key})).true


def test_every_leaf_is_looked_at() -> None:
    """R10: no short cut in evaluating."""
    tree = any_of(Delta(ORDERS), Delta(FX), all_of(Delta(COUNT), Delta(SCHEMA)))
    verdict = evaluate(tree, {ORDERS.key: Fact(NOW)}, NOW)

    assert [leaf.true for leaf in verdict.leaves()] == [True, False, False, False]
    assert [p.key for p in params_of(tree)] == sorted(p.key for p in (ORDERS, FX, COUNT, SCHEMA))


def test_one_layer_of_the_other_kind_nests() -> None:
    """R5: all inside any, any inside all; a setting forbids even that."""
    nested = all_of(Delta(ORDERS), any_of(Delta(FX), Delta(COUNT)))

    check_trigger(nested)
    with pytest.raises(InvalidTrigger, match="nested triggers are switched off"):
        check_trigger(nested, nested=False)
    check_trigger(all_of(Delta(ORDERS), Delta(FX)), nested=False)


def test_what_is_of_the_same_kind_is_taken_apart() -> None:
    """So words that are made of all_of, such as all_arrived, may stand in one."""
    leaves = (Delta(ORDERS), Delta(FX))

    assert all_of(all_of(*leaves), Delay(FX, "1h")) == all_of(*leaves, Delay(FX, "1h"))
    assert any_of(any_of(*leaves)) == any_of(*leaves)
    assert all_of(all_arrived([ORDERS], "day"), Delta(FX)).children[-1] == Delta(FX)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: all_of(), "all_of needs at least one trigger, got none"),
        (lambda: any_of(), "any_of needs at least one trigger, got none"),
        (lambda: AllOf((all_of(Delta(FX)),)), "all_of inside all_of says nothing new"),
        (
            lambda: all_of(any_of(all_of(Delta(FX)))),
            "triggers nest one layer deep, all_of inside any_of or any_of inside all_of",
        ),
        (lambda: all_of([Delta(FX)]), "write the triggers one by one, not as a list"),
        (lambda: all_of(lambda: True), "all_of takes triggers, got <function"),
        (lambda: Delta(ORDERS, "0s"), "a minimum of zero would always be true"),
        (lambda: Delta(COUNT, 0), "a minimum of zero would always be true"),
        (lambda: ChunkDelta(ORDERS, "day", 0), "1 or more; got 0; leave it out"),
        (lambda: ChunkDelta(ORDERS, "day", -2), "1 or more; got -2"),
        (lambda: ChunkDelay(ORDERS, "day", -1), "0 or more; got -1"),
        (lambda: Delta(ORDERS, timedelta(-1)), "must be zero or more"),
        (lambda: Delay(ORDERS, timedelta(-1)), "must be zero or more"),
        (lambda: Delta(COUNT, -3), "takes zero or more, got -3"),
        (lambda: Delta(ORDERS, 5), "takes a timedelta or a text such as '90s'"),
        (lambda: Delta(COUNT, "5m"), "an integer, takes a whole number, got '5m'"),
        (lambda: Delta(SCHEMA, 1), "versions have no distance"),
        (lambda: Delay(COUNT, "5m"), "Delay compares instants, but param 'dwh.orders.count'"),
        (lambda: ChunkDelta(SCHEMA, "day"), "ChunkDelta compares instants"),
        (
            lambda: RefDelay(ORDERS, ORDERS, "1h"),
            "on both sides; to compare it with the clock take Delay",
        ),
        (lambda: RefDelay(ORDERS, COUNT, "1h"), "both must be instants, or both integers"),
        (lambda: RefDelay(SCHEMA, Param("a", "b", "version"), 1), "both must be instants"),
        (lambda: ChunkRefDelay(COUNT, OTHER, "day"), "ChunkRefDelay compares instants"),
        (lambda: ChunkDelta(ORDERS, "fortnight"), "no chunk is called 'fortnight'"),
        (lambda: ChunkDelta(ORDERS, 5), "a chunk is a Chunk, or a name such as 'day'; got 5"),
        (lambda: Delta("dwh.orders.loaded_to"), "Delta takes a param, made by app.data("),
        (lambda: Delay(ORDERS, "5 parsecs"), "cannot be read: '5 parsecs'"),
        (lambda: check_trigger(lambda: True), "a trigger is made by Delta"),
        (lambda: any_of(*[Delta(ORDERS, timedelta(i)) for i in range(1, 60)]), "at most 50 leaves"),
        (
            lambda: check_trigger(
                all_of(Delta(ORDERS), Delta(Param("dwh.orders", "loaded_to", "integer")))
            ),
            "is of kind 'instant' in one place of the trigger and 'integer' in another",
        ),
    ],
)
def test_bad_triggers_are_refused_with_the_remedy(build: object, says: str) -> None:
    """R3, R4, R5, R6: what was written, and what to write instead."""
    with pytest.raises(InvalidTrigger) as caught:
        build()  # type: ignore[operator]
    assert says in str(caught.value)


def test_a_form_of_a_newer_release_is_refused_by_name() -> None:
    with pytest.raises(UnknownFormat, match="written in format 2, this release knows 1"):
        load(dump(Delta(ORDERS)), format=2)
    with pytest.raises(UnknownFormat, match="no trigger is called 'sigma'"):
        load({"is": "sigma", "param": ["a", "b", "instant"]})


@given(trees)
def test_triggers_are_values(trigger: Trigger) -> None:
    assert hash(trigger) == hash(load(dump(trigger)))
    for leaf in leaves_of(trigger):
        with pytest.raises(AttributeError):
            leaf.param = FX  # type: ignore[misc]
