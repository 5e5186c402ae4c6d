"""The simulation of stages: the engine's rules in memory, and the checks that are built on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given

from mainspring import Kind, Mainspring, Saved, Untouched, Update, now
from mainspring.errors import (
    InvalidOutcome,
    InvalidSetting,
    NotFound,
    UndeclaredField,
    UnknownStage,
)
from mainspring.testing import (
    NotAtRest,
    NotConfluent,
    Order,
    Simulation,
    TimerLost,
    check_confluence,
    check_early_visits,
    check_stages,
    check_unasked,
    orders,
)

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Box:
    id: int
    a: int = 0
    b: int = 0
    label: str = ""


class Crate(msgspec.Struct):
    id: int
    a: int = 0
    b: int = 0


@pytest.fixture
def box() -> Kind:
    app = Mainspring("postgresql://nowhere/nothing")
    return app.entities("box", table="public.box", key="id", version="version", model=Box)


def simulate(kind: Kind, *entities: Any, **options: Any) -> Simulation:
    simulation = Simulation(kind, **options)
    for entity in entities:
        simulation.put(entity)
    return simulation


# -- what the simulation does


def test_a_change_reaches_the_stages_that_it_interests(box):
    """S17"""
    seen: list[str] = []

    @box.stage(name="A", interest=["a"])
    def of_a(entity):
        seen.append("A")
        return Untouched()

    @box.stage(name="B", interest=["b"])
    def of_b(entity):
        seen.append("B")
        return Untouched()

    simulation = simulate(box, Box(1)).run()
    assert seen == ["A", "B"]
    seen.clear()

    simulation.change(1, b=2)
    simulation.run()
    assert seen == ["B"]

    simulation.change(1, b=2)
    simulation.run()
    assert seen == ["B"]


def test_a_stage_is_not_asked_about_its_own_save(box):
    """S13: the version that it would see is the one that its own save made."""
    asked: list[int] = []

    class Up:
        def should_process(self, entity, state):
            asked.append(entity.a)
            return entity.a < 5

        def process(self, entity, state):
            return Update(a=entity.a + 1)

    box.stage(Up)

    assert simulate(box, Box(1)).run().entity(1).a == 1
    assert asked == [0]


def test_a_stage_that_wants_to_is_asked_about_its_own_save(box):
    """S13"""

    class Up:
        def should_process(self, entity, state):
            return entity.a < 5

        def process(self, entity, state):
            return Update(a=entity.a + 1)

    box.stage(Up, sees_own=True)

    assert simulate(box, Box(1)).run().entity(1).a == 5


def test_the_earliest_time_wins_and_an_outcome_states_its_timer_anew(box):
    """S3, S9"""

    class Later:
        def should_process(self, entity, state):
            return now() + 10 * DAY

        def process(self, entity, state):
            return Untouched()

    box.stage(Later)
    simulation = simulate(box, Box(1)).run()
    start = simulation.now
    assert simulation.timer("Later", 1) == start + 10 * DAY

    simulation.offer("Later", 1, at=start + 20 * DAY)
    assert simulation.timer("Later", 1) == start + 10 * DAY
    simulation.offer("Later", 1, at=start + 5 * DAY)
    assert simulation.timer("Later", 1) == start + 5 * DAY

    simulation.advance(5 * DAY)
    assert simulation.timer("Later", 1) is None


def test_a_timer_sees_the_time_that_it_was_set_for(box):
    """S4"""
    seen: list[datetime] = []

    @box.stage
    def tick(entity):
        seen.append(now())
        return Untouched(visit_in=DAY)

    simulation = simulate(box, Box(1))
    start = simulation.now
    simulation.advance(3 * DAY)

    assert seen == [start + n * DAY for n in range(4)]
    assert simulation.now == start + 3 * DAY


def test_state_is_private_and_survives_as_it_would_in_the_database(box):
    """S5"""

    @dataclass
    class Count:
        runs: int

    class Counting:
        def process(self, entity, state):
            return Untouched(state=Count(state.runs + 1 if state else 1), visit_in=DAY)

    box.stage(Counting, state=Count)
    simulation = simulate(box, Box(1)).advance(2 * DAY)
    assert simulation.state("Counting", 1) == Count(3)

    simulation.set_state("Counting", 1, Count(10))
    simulation.run()
    assert simulation.state("Counting", 1) == Count(11)


def test_a_state_that_cannot_be_stored_fails_in_the_test_already(box):
    """S5"""
    box.stage(lambda entity: Untouched(state=object()), name="Odd", state=int)

    with pytest.raises(InvalidOutcome, match="state of stage 'Odd' cannot be written"):
        simulate(box, Box(1)).run()


def test_a_stage_sees_only_what_it_reads(box):
    """S6"""
    box.stage(lambda entity: Update(b=entity.label), name="Peek", reads=["a"], writes=["b"])

    with pytest.raises(UndeclaredField, match="looks at 'label'") as failed:
        simulate(box, Box(1)).run()

    assert failed.value.__notes__ == ["in process of stage 'Peek' of kind 'box'"]


def test_a_patch_of_an_undeclared_field_is_refused(box):
    """S6"""
    box.stage(lambda entity: Update(replace(entity, a=1, b=2)), name="Wide", writes=["a"])

    with pytest.raises(UndeclaredField, match=r"changed 'b', but declares that it writes a"):
        simulate(box, Box(1)).run()


def test_a_patch_of_a_field_that_is_not_there_is_refused(box):
    box.stage(lambda entity: Update(c=1), name="Wrong")

    with pytest.raises(InvalidOutcome, match="writes 'c', which the entity has not"):
        simulate(box, Box(1)).run()


def test_nonsense_from_process_is_refused(box):
    box.stage(lambda entity: None, name="Silent")

    with pytest.raises(InvalidOutcome, match="must return Untouched"):
        simulate(box, Box(1)).run()


def test_a_stage_that_really_waits_runs_on_a_loop_of_its_own(box):
    @box.stage
    async def slow(entity):
        await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.sleep(0), 1)
        return Update(a=1)

    assert simulate(box, Box(1)).run().entity(1).a == 1


async def test_it_runs_inside_an_async_test_too(box):
    @box.stage
    async def slow(entity):
        await asyncio.sleep(0.001)
        return Update(a=1)

    assert simulate(box, Box(1)).run().entity(1).a == 1


def test_saved_is_called_for_what_was_saved_and_only_if_wanted(box):
    """S7"""
    got: list[Saved] = []

    class Once:
        def process(self, entity, state):
            return Update(a=1)

        async def saved(self, event):
            got.append(event)

    box.stage(Once)
    quiet = simulate(box, Box(1)).run()
    assert (got, len(quiet.events)) == ([], 1)

    simulate(box, Box(1), hooks=True).run()
    (event,) = got
    assert (event.id, event.what, event.changed, event.entity.a) == (1, "saved", {"a": [0, 1]}, 1)
    assert event.idempotency_key == "Once:1"


@pytest.mark.parametrize("entity", [Crate(1), {"id": 1, "a": 0, "b": 0}], ids=["struct", "dict"])
def test_models_may_be_structs_or_dicts(entity):
    app = Mainspring("postgresql://nowhere/nothing")
    model = type(entity) if not isinstance(entity, dict) else None
    kind = app.entities("crate", table="public.crate", key="id", version="version", model=model)

    @kind.stage(reads=["a"], writes=["b"])
    def copy(crate):
        return Update(b=(crate["a"] if isinstance(crate, dict) else crate.a) + 1)

    found = simulate(kind, entity).run().entity(1)

    assert (found["b"] if isinstance(found, dict) else found.b) == 1


def test_what_is_not_there_has_a_clear_error(box):
    with pytest.raises(InvalidSetting, match="has no stages"):
        Simulation(box)
    box.stage(lambda entity: Untouched(), name="Idle")
    simulation = simulate(box, Box(1)).run()

    with pytest.raises(NotFound, match="no box 2 was put"):
        simulation.entity(2)
    with pytest.raises(UnknownStage, match="Idle"):
        simulation.timer("Idel", 1)
    with pytest.raises(InvalidSetting, match="time does not go back"):
        simulation.advance(-DAY)
    with pytest.raises(InvalidSetting, match=r"put\(entity, id=...\)"):
        simulation.put({"a": 1})
    simulation.delete(1)
    assert simulation.ids == []


# -- what the checks find


def test_stages_that_never_rest_are_shown_with_their_values(box):
    """S16"""
    box.stage(lambda entity: Update(a=1 - entity.a), name="Flip", interest=["b"])
    box.stage(lambda entity: Update(b=1 - entity.b), name="Flop", interest=["a"])

    with pytest.raises(NotAtRest, match=r"Flip: a 0 -> 1\n.*Flop: b 0 -> 1"):
        simulate(box, Box(1)).run()


def test_a_result_that_depends_on_the_order_is_shown_with_both_stories(box):
    box.stage(lambda entity: Update(label="a" if not entity.label else entity.label), name="First")
    box.stage(lambda entity: Update(label="b" if not entity.label else entity.label), name="Second")

    with pytest.raises(NotConfluent, match=r"field label: 'a' or 'b'"):
        check_stages(box, [Box(1)])


def test_a_stage_that_trusts_should_process_is_found(box):
    """S8: asked in doubt, it would process what it need not."""

    class Trusting:
        def should_process(self, entity, state):
            return entity.a == 7

        def process(self, entity, state):
            return Update(b=1)

    box.stage(Trusting)

    with pytest.raises(NotConfluent, match="field b: 0 or 1"):
        check_unasked(box, [Box(1)])


def test_a_stage_that_forgets_its_timer_when_visited_early_is_found(box):
    """S9"""

    class Forgetful:
        def should_process(self, entity, state):
            return now() + DAY

        def process(self, entity, state):
            return Untouched()

    box.stage(Forgetful)

    with pytest.raises(TimerLost, match=r"'Forgetful' wants to visit 1 at .* it forgets it"):
        check_early_visits(box, [Box(1)])


def test_a_stage_that_puts_its_timer_off_when_visited_early_is_found(box):
    """S9"""
    box.stage(lambda entity: Untouched(visit_in=DAY), name="Lazy")

    with pytest.raises(TimerLost, match="puts it off to"):
        check_early_visits(box, [Box(1)])


def test_a_stage_that_keeps_its_timer_passes(box):
    """S9"""

    class Steady:
        def should_process(self, entity, state):
            return state is None or datetime.fromisoformat(state)

        def process(self, entity, state):
            due = datetime.fromisoformat(state) if state else now()
            if now() < due:
                return Untouched(visit_at=due)
            following = now() + DAY
            return Untouched(state=following.isoformat(), visit_at=following)

    box.stage(Steady, state=str)

    check_stages(box, [Box(1), Box(2)])


def test_an_order_prints_as_it_is_written(box):
    box.stage(lambda entity: Untouched(), name="Idle")

    order = Order(("Idle", "(system)"), 7)

    assert eval(repr(order)) == order


def test_the_strategy_draws_orders_of_all_stages(box):
    box.stage(lambda entity: Update(a=1), name="A", interest=["b"])
    box.stage(lambda entity: Update(b=1), name="B", interest=["a"])

    @given(orders(box))
    def check(order):
        assert sorted(order.ranks) == ["(system)", "A", "B"]
        check_confluence(box, [Box(1)], order)

    check()


def test_what_a_stage_writes_to_an_ignored_field_asks_nobody() -> None:
    """S17, S21: as in the engine, whoever changes it."""
    app = Mainspring("postgresql://nowhere/nothing")
    box = app.entities("box", table="public.box", model=Box, ignore=["label"])
    seen: list[str] = []

    @box.stage
    async def watch(found: Box) -> Untouched:
        seen.append(found.label)
        return Untouched()

    @box.stage(interest=["a"], writes=["label"])
    async def name(found: Box) -> Update:
        return Update(label=f"box {found.a}")

    simulation = simulate(box, Box(1))
    simulation.run()

    assert simulation.entity(1).label == "box 0"
    assert len(seen) == 1


def test_a_struct_with_other_names_in_the_table_is_simulated_by_those() -> None:
    class Tin(msgspec.Struct, rename={"size": "a", "lid": "b"}):
        id: int
        size: int = 0
        lid: int = 0

    app = Mainspring("postgresql://nowhere/nothing")
    tin = app.entities("tin", table="public.tin", model=Tin)

    @tin.stage(reads=["a"], writes=["b"])
    async def cover(found: Tin) -> Update:
        return Update(b=found.size + 1)

    simulation = simulate(tin, Tin(1, size=4))
    assert simulation.run().entity(1) == Tin(1, size=4, lid=5)

    simulation.change(1, a=7)
    assert simulation.run().entity(1) == Tin(1, size=7, lid=8)


@pytest.mark.parametrize("form", ["dataclass", "struct"])
def test_a_field_put_into_a_part_that_does_not_have_it_is_told(form):
    """S6: the whole entity that a stage is given has only what it declares."""

    class Small(msgspec.Struct):
        id: int
        a: int = 0
        b: int = 0

    model, changed = {"dataclass": (Box, replace), "struct": (Small, msgspec.structs.replace)}[form]
    app = Mainspring("postgresql://nowhere/nothing")
    kind = app.entities("crate", table="public.crate", version="xmin", model=model)
    kind.stage(lambda entity: Update(changed(entity, b=2)), name="Wide", reads=["a"])

    with pytest.raises(UndeclaredField) as failed:
        simulate(kind, model(1)).run()

    assert str(failed.value) == (
        "stage 'Wide' puts 'b' into the entity that it was given, which has only what the stage "
        "declares: add it to writes=, or return Update(b=...)"
    )


def test_each_hook_hears_its_own_kind_of_event(box):
    """S7: what the stage saved, what came from outside, and the end."""
    heard = []

    class Count:
        def process(self, entity, state):
            return Update(a=1, state=1) if entity.a == 0 else Untouched()

        def saved(self, event):
            heard.append(("saved", event.what))

        async def state_changed(self, event):
            heard.append(("state_changed", event.what, event.state, event.outside))

        def deleted(self, event):
            heard.append(("deleted", event.what, event.entity.a, event.stage))

    box.stage(name="Count", state=int)(Count())
    simulation = Simulation(box, hooks=True)
    id = simulation.put(Box(1))
    simulation.run()
    simulation.set_state("Count", id, 7)
    simulation.run()
    simulation.delete(id)

    assert heard == [
        ("saved", "saved"),
        ("state_changed", "state", 7, True),
        ("deleted", "deleted", 1, None),
    ]


def test_check_stages_deletes_the_entities_too():
    """S7, S21: a `deleted` that counts on a save before it is found."""

    class Fragile:
        def process(self, entity, state):
            return Untouched(state=1) if state is None else Untouched()

        def saved(self, event):
            self.known = True

        def deleted(self, event):
            assert self.known

    def fresh() -> Kind:
        app = Mainspring("postgresql://nowhere/nothing")
        kind = app.entities("box", table="public.box", model=Box)
        kind.stage(name="Fragile", state=int)(Fragile())
        return kind

    with pytest.raises(AttributeError, match="known"):
        check_stages(fresh, [Box(1)], orders=0, hooks=True)
