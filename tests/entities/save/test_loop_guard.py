"""The loop guard: pure rules over what stages wrote since the last event from outside."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.entities.save import loop_guard as guard
from mainspring.entities.save.loop_guard import Chain


def walk(
    writes: list[tuple[str, str, object, object]], chain: Chain | None = None
) -> list[str | None]:
    """What the guard says to each of these saves (stage, field, before, after)."""
    chain = chain or Chain()
    said = []
    for stage, field, old, new in writes:
        changes = {field: (msgspec.json.encode(old), msgspec.json.encode(new))}
        chain = guard.extend(chain, stage, changes)
        said.append(guard.verdict(chain))
        chain = guard.begin(
            {"chain": msgspec.json.decode(msgspec.json.encode(guard.encode(chain)))}, 0
        )
    return said


def test_two_stages_that_undo_each_other_are_found_with_the_values_that_went_round() -> None:
    """S16: the cycle is printed, with the stages and the values."""
    writes = [("Up", "price", 1, 2), ("Down", "price", 2, 1)] * 20

    said = walk(writes)

    first = next(n for n, why in enumerate(said) if why)
    assert first < 2 * guard.QUIET_HOPS
    assert said[first] == (
        "stages go in a circle, which came round 3 times: Up: price 1 -> 2; Down: price 2 -> 1"
    ) or said[first] == (
        "stages go in a circle, which came round 3 times: Down: price 2 -> 1; Up: price 1 -> 2"
    )


def test_a_circle_over_several_fields_is_found() -> None:
    """S16: what counts is the values of all fields that were written in the chain."""
    circle = [("A", "x", 0, 1), ("B", "y", 0, 1), ("C", "x", 1, 0), ("D", "y", 1, 0)]

    said = walk(circle * 10)

    assert any(why and "A: x 0 -> 1" in why and "D: y 1 -> 0" in why for why in said)


def test_values_that_are_always_new_are_no_circle_but_end_at_a_hundred_hops() -> None:
    """S16: a runaway is stopped by a far limit; a busy row is not mistaken for one (trap 28)."""
    said = walk([("Count", "n", n, n + 1) for n in range(120)])

    assert said[:98] == [None] * 98
    assert "100 times without an event from outside" in str(said[99])


def test_a_field_that_is_always_new_does_not_hide_a_circle_of_others_for_ever() -> None:
    """An `updated_at` that a stage writes each time makes each content new; the limit ends it."""
    writes = [(("Up", "price", 1, 2) if n % 2 else ("Down", "price", 2, 1)) for n in range(10)] + [
        ("Touch", "seen", n, n + 1) for n in range(200)
    ]

    assert any(walk(writes))


def test_a_short_walk_costs_nothing_to_remember() -> None:
    chain = Chain()
    for _ in range(guard.QUIET_HOPS):
        chain = guard.extend(chain, "A", {"x": (b"1", b"2")})
    assert chain.ring == []
    assert guard.encode(chain) == {"n": guard.QUIET_HOPS, "at": 0.0}


def test_a_visit_that_is_wanted_at_once_is_put_off_longer_each_time() -> None:
    """S16: some times in a row are free, a save ends the row, and no rest ends the chain."""
    chain, rests = Chain(), []
    for _ in range(60):
        chain = guard.hop(chain)
        rests.append(guard.rest(chain))

    assert rests[:9] == [0, 0, 0, 1, 2, 4, 8, 16, 30]
    assert max(rests) < guard.RESTS_AFTER
    assert guard.verdict(chain) is None
    saved = guard.extend(chain, "A", {"x": (b"1", b"2")})
    assert (saved.n, guard.rest(saved)) == (1, 0)
    assert guard.begin({"chain": guard.encode(chain)}, 0.0) == chain


def test_an_event_from_outside_begins_a_new_chain() -> None:
    """S16: outside writes reset the guard, so a busy entity is never parked for being busy (trap 28)."""
    assert guard.begin({"chain": {"n": 99, "at": 5.0}, "out": 1}, 7.0) == Chain(at=7.0)
    assert guard.begin({}, 7.0) == Chain(at=7.0)
    assert guard.begin({"chain": {"n": 99, "at": 5.0}}, 7.0).n == 99
    assert guard.begin({"chain": 0}, 7.0).n == 0
    assert guard.begin({"chain": {"n": "many"}}, 7.0).n == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from("xy"), st.integers(0, 2)), max_size=150
    )
)
def test_every_chain_ends(steps: list[tuple[str, str, int]]) -> None:
    """Whatever stages write, a chain without an outside event is stopped after at most a hundred hops."""
    values = {"x": 0, "y": 0}
    writes = []
    for stage, field, new in steps:
        writes.append((stage, field, values[field], new))
        values[field] = new

    said = walk(writes)

    assert len(said) < guard.MOST_HOPS or any(said[: guard.MOST_HOPS])


@settings(deadline=None)
@given(st.integers(2, 10), st.integers(1, 3))
def test_every_circle_that_fits_the_ring_is_found(length: int, fields: int) -> None:
    circle = [(f"S{n}", f"f{n % fields}", (n - fields) % length, n) for n in range(length * fields)]
    said = walk(circle * 12)
    found = next((n for n, why in enumerate(said) if why), None)

    assert found is not None
    if len(circle) * 2 < guard.RING:
        assert "circle" in str(said[found])
