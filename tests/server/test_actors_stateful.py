"""Actors elsewhere over two real servers, whatever comes in whatever order, against a model of their tasks.

Actors pull, ask again at another server, beat, settle, settle twice, late and at both servers at once,
give back; time passes and a worker recovers; servers are stopped and started. After every step:

    no task is out without a hold    what the model has as held, waiting, parked or done is so in the rows
    one accepted answer              for each task and generation; ALREADY only for the run that settled
    again is the same                any call sent twice with its ids leaves what once leaves
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from actors_scene import ACTORS, ActorsScene, Row
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mainspring.client import TaskProblem
from mainspring.client.actors import PulledTask, SettledTask, completed, failed, released
from mainspring.client.messages import new_id

SETTINGS = settings(
    max_examples=8,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
PLACES = st.sampled_from([0, 1])
# Which of those that there are. Of two pulls at once chance says who gets what: no draw depends on it.
WHICH = st.integers(0, 999)
RESULT, FAILURE, FINAL, RELEASE = "result", "failure", "final", "release"
KINDS = st.sampled_from([RESULT, RESULT, FAILURE, FINAL, RELEASE])
FAILURES = (FAILURE, FINAL)


@dataclass(eq=False)
class Order:
    """A task: a call of its own, or the step of a process."""

    number: int
    actor: str
    id: str  # of the call or the process
    is_step: bool
    ref: Any  # by which its result is asked for
    version: int = 0  # rises whenever the engine makes a new one
    failures: int = 0
    run: Attempt | None = None  # that holds it
    ended: str = ""  # "done" or "parked"
    key: str = ""  # the idempotency key, from the first pull on
    results: list[str] = field(default_factory=list)  # that were accepted

    @property
    def waits(self) -> bool:
        return self.run is None and not self.ended


@dataclass(eq=False)
class Attempt:
    """A task in an actor's hands."""

    order: Order
    pull_id: str
    version: int
    ticket: str
    held_until: Any
    settled: str = ""  # what it came to


def answer_of(kind: str, attempt: Attempt) -> Any:
    match kind:
        case "result":
            return completed(attempt.ticket, f"{attempt.pull_id}/{attempt.version}")
        case "release":
            return released(attempt.ticket)
        case _:
            return failed(attempt.ticket, TaskProblem("no cover", final=kind == FINAL))


class Actors(RuleBasedStateMachine):
    """Two servers, two actors, some orders."""

    scene: ActorsScene

    @initialize()
    def begin(self) -> None:
        self.orders: dict[int, Order] = {}
        self.attempts: list[Attempt] = []
        self.pulls: list[tuple[str, tuple[str, ...], int]] = []
        for actor in ACTORS:
            self.enqueue(actor, False, 0)

    def teardown(self) -> None:
        if hasattr(self, "orders"):
            try:
                self.end()
            finally:
                self.scene.clear()

    # -- what comes

    @rule(actor=st.sampled_from(ACTORS), is_step=st.booleans(), place=PLACES)
    def enqueue(self, actor: str, is_step: bool, place: int) -> None:
        number = len(self.orders)
        client = self.scene.client(place)
        if is_step:
            name = actor.replace("till", "shop")
            ref: Any = self.scene.do(client.processes.start(name, {"order": number}))
            self.scene.wait_for_step(ref.id)
        else:
            ref = self.scene.do(client.tasks.enqueue(actor, {"order": number}))
        self.orders[number] = Order(number, actor, ref.id, is_step, ref)

    # -- pulls

    @rule(
        actors=st.sampled_from([ACTORS[:1], ACTORS[1:], ACTORS]),
        limit=st.integers(1, 3),
        place=PLACES,
    )
    def pull(self, actors: tuple[str, ...], limit: int, place: int) -> None:
        pull_id = new_id()
        waiting = self._waiting(actors)
        reply = self.scene.do(
            self.scene.client(place).actors.pull(actors, limit=limit, pull_id=pull_id)
        )
        self.pulls.append((pull_id, actors, limit))
        assert len(reply.tasks) == min(limit, len(waiting))
        self._taken(reply.tasks, pull_id, waiting)

    @rule(actors=st.sampled_from([ACTORS[:1], ACTORS]), limit=st.integers(1, 3))
    def pull_at_both(self, actors: tuple[str, ...], limit: int) -> None:
        waiting = self._waiting(actors)
        found = bool(waiting)
        ids = [new_id(), new_id()]
        replies = self.scene.together(
            *(
                self.scene.client(place).actors.pull(actors, limit=limit, pull_id=pull_id)
                for place, pull_id in enumerate(ids)
            )
        )
        for pull_id, reply in zip(ids, replies, strict=True):
            self.pulls.append((pull_id, actors, limit))
            assert len(reply.tasks) <= limit
            self._taken(reply.tasks, pull_id, waiting)
        assert any(reply.tasks for reply in replies) == found

    @rule(which=WHICH, place=PLACES)
    def pull_again(self, which: int, place: int) -> None:
        if not self.pulls:
            return
        pull_id, actors, limit = self.pulls[which % len(self.pulls)]
        waiting = self._waiting(actors)
        mine = {a.order.number: a for a in self.attempts if a.pull_id == pull_id and self._has(a)}
        reply = self.scene.do(
            self.scene.client(place).actors.pull(actors, limit=limit, pull_id=pull_id, again=True)
        )
        if not mine:
            assert len(reply.tasks) == min(limit, len(waiting))
            self._taken(reply.tasks, pull_id, waiting)
            return
        assert {task.args["order"] for task in reply.tasks} == set(mine)
        for task in reply.tasks:
            attempt = mine[int(str(task.args["order"]))]
            assert task.ticket == attempt.ticket
            assert task.held_until > attempt.held_until
            attempt.held_until = task.held_until

    def _waiting(self, actors: tuple[str, ...]) -> dict[int, Order]:
        found = (o for o in self.orders.values() if o.actor in actors and o.waits)
        return {order.number: order for order in found}

    def _has(self, attempt: Attempt) -> bool:
        return attempt.order.run is attempt

    def _taken(self, tasks: list[PulledTask], pull_id: str, waiting: dict[int, Order]) -> None:
        for task in tasks:
            order = waiting.pop(int(str(task.args["order"])))  # each goes to one
            assert task.attempt == order.failures + 1
            assert order.key in ("", task.key)
            order.key = task.key
            known = [
                a
                for a in self.attempts
                if (a.order, a.pull_id, a.version) == (order, pull_id, order.version)
            ]
            if known:  # recovered, and pulled again under the same id: the same attempt
                [attempt] = known
                attempt.ticket, attempt.held_until = task.ticket, task.held_until
            else:
                attempt = Attempt(order, pull_id, order.version, task.ticket, task.held_until)
                self.attempts.append(attempt)
            order.run = attempt

    # -- beats and answers

    @rule(which=st.lists(WHICH, min_size=1, max_size=3), place=PLACES)
    def beat(self, which: list[int], place: int) -> None:
        if not self.attempts:
            return
        chosen = list({n % len(self.attempts): None for n in which})
        self._beat([self.attempts[n] for n in chosen], place)

    def _beat(self, chosen: list[Attempt], place: int) -> None:
        beats = self.scene.do(self.scene.client(place).actors.beat([a.ticket for a in chosen]))
        for attempt, found in zip(chosen, beats, strict=True):
            if self._has(attempt):
                assert found.held_until is not None
                assert found.held_until >= attempt.held_until
                attempt.held_until = found.held_until
            else:
                is_gone = attempt.order.ended == "done"
                assert found.stop == ("gone" if is_gone else "overtaken")

    @rule(which=WHICH, kind=KINDS, place=PLACES)
    def settle_what_is_held(self, which: int, kind: str, place: int) -> None:
        if held := [a for a in self.attempts if self._has(a)]:
            self._settle(held[which % len(held)], kind, place)

    @rule(which=WHICH, kind=KINDS, place=PLACES)
    def settle_late(self, which: int, kind: str, place: int) -> None:
        if late := [a for a in self.attempts if not self._has(a)]:
            self._settle(late[which % len(late)], kind, place)

    @rule(which=WHICH, kind=KINDS)
    def settle_at_both(self, which: int, kind: str) -> None:
        if not (held := [a for a in self.attempts if self._has(a)]):
            return
        attempt = held[which % len(held)]
        answers = self.scene.together(
            *(
                self.scene.client(place).actors.settle([answer_of(kind, attempt)])
                for place in (0, 1)
            )
        )
        said = sorted(self._said(settled) for settled in answers)
        assert said == ["accepted", "already"]
        self._accepted(attempt, kind)

    def _settle(self, attempt: Attempt, kind: str, place: int) -> None:
        client = self.scene.client(place)
        allowed = self._expected(attempt, kind)
        said = self._said(self.scene.do(client.actors.settle([answer_of(kind, attempt)])))
        assert said in allowed, (said, allowed)
        if said == "accepted":
            self._accepted(attempt, kind)

    def _said(self, settled: list[SettledTask]) -> str:
        [one] = settled
        assert one.problem is None
        return one.settled_as

    def _expected(self, attempt: Attempt, kind: str) -> set[str]:
        order = attempt.order
        match attempt.settled:
            case "result":
                return {"already"}
            case "failure" | "final":
                return {"refused"} if kind == RESULT else {"already"}
            case (
                "release"
            ):  # which history does not know: it is known while nobody changed the task
                return {"already", "refused"} if kind == RELEASE else {"refused"}
        if self._has(attempt):
            return {"accepted"}
        if order.ended or order.actor == "till.last" or attempt.version != order.version:
            return {"refused"}
        if kind == RELEASE and order.run is not None:  # it is in another's hands
            return {"refused"}
        return {"accepted"}  # the first answer counts, whoever has it now

    def _accepted(self, attempt: Attempt, kind: str) -> None:
        order = attempt.order
        attempt.settled = kind
        order.run = None
        order.version += 1
        if kind == RESULT:
            order.results.append(f"{attempt.pull_id}/{attempt.version}")
            order.ended = "done"
        elif kind in FAILURES:
            order.failures += 1
            order.ended = "parked" if kind == FINAL else ""

    # -- time and servers

    @rule(seconds=st.sampled_from([25, 45, 70]))
    def time_passes(self, seconds: int) -> None:
        now = self.scene.advance(seconds)
        for order in self.orders.values():
            if order.run is not None and order.run.held_until <= now:
                order.run = None
                if order.actor == "till.last":
                    order.version += 1

    @rule(place=PLACES)
    def restart(self, place: int) -> None:
        self.scene.restart(place)

    # -- what holds after every step

    @invariant()
    def rows_are_as_the_model_has_them(self) -> None:
        found: dict[str, Row] = {row.process or row.key: row for row in self.scene.rows()}
        for order in self.orders.values():
            row = found.pop(order.id, None)
            if order.ended == "done":
                assert row is None, order
                continue
            assert row is not None, order
            assert (row.held is not None) == (order.run is not None), (order, row)
            assert row.parked == (order.ended == "parked"), (order, row)
            assert (row.attempt, row.crashes) == (order.failures, 0), (order, row)
            if order.run is not None:
                assert row.held_until == order.run.held_until, (order, row)
        assert not found

    @invariant()
    def one_result_is_accepted(self) -> None:
        done = self.scene.done()
        assert all(count == 1 for count in done.values())
        for order in self.orders.values():
            assert len(order.results) <= 1

    def end(self) -> None:
        """All that is left is pulled and done, and each has the result that was accepted."""
        client = self.scene.client(0)
        self.time_passes(70)
        while waiting := self._waiting(ACTORS):
            tasks = self.scene.do(client.actors.pull(ACTORS, limit=100, pull_id="last")).tasks
            assert tasks
            self._taken(tasks, "last", waiting)
            for attempt in [a for a in self.attempts if self._has(a)]:
                self._settle(attempt, RESULT, 0)
        for order in self.orders.values():
            if order.results:
                if order.is_step:
                    found = self.scene.do(client.processes.result(order.ref, timeout=30))
                else:
                    found = self.scene.do(client.tasks.result(order.ref, timeout=30))
                assert [found] == order.results


def test_actors_elsewhere_are_held_and_settled_once(database_url: str, tmp_path: Path) -> None:
    """P3, P4: rules 13 to 16 over gRPC, in some hundreds of steps."""
    play(database_url, tmp_path, SETTINGS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_actors_elsewhere_are_held_and_settled_once_at_length(
    database_url: str, tmp_path: Path
) -> None:
    """The same, longer."""
    play(database_url, tmp_path, settings(SETTINGS, max_examples=120, stateful_step_count=60))


def play(url: str, folder: Path, chosen: settings) -> None:
    scene = ActorsScene(url, folder)
    scene.start()
    Actors.scene = scene
    try:
        run_state_machine_as_test(Actors, settings=chosen)  # type: ignore[no-untyped-call]
    finally:
        with suppress(Exception):
            scene.clear()
        scene.close()
