"""ActorService over real gRPC: tasks pulled, kept, settled, given back, asked for again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import psycopg
import pytest
from served_process import Served

from mainspring.client import Client, RemoteError, TaskProblem
from mainspring.client.actors import completed, failed, released
from mainspring.client.messages import new_id
from mainspring.v1 import actor_service_pb2, actor_service_pb2_grpc


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    served.start()
    return served.client()


def visits(url: str) -> list[tuple[Any, ...]]:
    """The actor's visits: whether each is held, its attempts, whether it is parked."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "select pass is not null, attempt, parked_at is not null from mainspring.visit"
            " where queue = 'card.charge' order by key"
        ).fetchall()


def test_a_call_of_its_own_is_pulled_kept_and_completed(client: Client, served: Served) -> None:
    """P3, P4: a remote task needs no process: hold, beat and settle are the kernel's."""
    call = client.tasks.enqueue("card.charge", {"order": 4})

    [task] = client.actors.pull("card.charge", limit=5).tasks
    assert (task.actor, task.args, task.attempt) == ("card.charge", {"order": 4}, 1)
    assert (task.key, task.process_id, task.beat_every) == (call.id, "", 20.0)
    trace = task.trace["traceparent"].split("-")
    assert trace[:2] == ["00", call.id.replace("-", "")]
    assert client.tasks.get(call).state == "running"
    [beaten] = client.actors.beat([task.ticket])
    assert beaten.held_until is not None
    assert beaten.held_until > task.held_until
    assert client.actors.complete(task.ticket, "paid", worker="till").settled_as == "accepted"
    assert client.actors.complete(task.ticket, "paid", worker="till").settled_as == "already"
    assert client.actors.fail(task.ticket, ValueError("no")).settled_as == "already"
    assert client.actors.beat([task.ticket])[0].stop == "gone"

    assert client.tasks.result(call, timeout=10) == "paid"
    assert visits(served.url) == []


def test_a_failed_call_is_retried_and_then_parked(client: Client, served: Served) -> None:
    """P4: attempts are counted from the row; `final` parks at once; `retry_after` is no attempt."""
    call = client.tasks.enqueue("card.charge", {"order": 4})
    other = client.tasks.enqueue("card.charge", {"order": 5})
    first, second = sorted(
        client.actors.pull("card.charge", limit=2).tasks, key=lambda task: task.args["order"]
    )
    settled = client.actors.settle(
        [
            failed(first.ticket, TaskProblem("busy", retry_after=0.0)),
            failed(second.ticket, TaskProblem("no card", code="CardError", final=True)),
        ]
    )
    assert [one.settled_as for one in settled] == ["accepted", "accepted"]
    assert client.tasks.get(other).state == "parked"
    for attempt in (1, 2, 3):
        [task] = client.actors.pull("card.charge", limit=2, wait=10).tasks
        assert task.attempt == attempt
        assert client.actors.fail(task.ticket, OSError("no line")).settled_as == "accepted"
    found = client.tasks.get(call)
    assert (found.state, found.error) == ("parked", "OSError: no line")
    assert client.tasks.get(other).error == "CardError: no card"


@pytest.mark.parametrize("answer", ["result", "failure", "release"])
def test_a_call_that_is_cancelled_while_an_actor_has_it(
    client: Client, served: Served, answer: str
) -> None:
    """P4, T8: its beat says so; a result that was on its way has won, nobody else has the task again."""
    waits = client.tasks.enqueue("card.charge", {"order": 3})
    assert client.tasks.cancel(waits) == "cancelled"
    call = client.tasks.enqueue("card.charge", {"order": 4})
    [task] = client.actors.pull("card.charge").tasks
    assert client.tasks.cancel(call) == "running"
    assert client.actors.beat([task.ticket])[0].stop == "cancelled"
    if answer == "result":
        assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"
    elif answer == "failure":
        assert client.actors.fail(task.ticket, OSError("no line")).settled_as == "accepted"
    else:
        assert client.actors.release(task.ticket).settled_as == "accepted"
    found = client.tasks.get(call)
    if answer == "result":
        assert (found.state, found.result) == ("done", "paid")
    else:
        assert (found.state, found.error) == ("cancelled", "cancelled by local")
    assert client.actors.pull("card.charge").tasks == []
    assert visits(served.url) == []


def test_what_is_given_back_is_due_at_once_and_no_attempt(client: Client, served: Served) -> None:
    """P4: release leaves attempts as they were, also when it is sent twice."""
    client.tasks.enqueue("card.charge", {"order": 4})
    [task] = client.actors.pull("card.charge").tasks
    assert client.actors.release(task.ticket).settled_as == "accepted"
    assert client.actors.release(task.ticket).settled_as == "already"
    assert client.actors.complete(task.ticket, "late").settled_as == "refused"
    [again] = client.actors.pull("card.charge").tasks
    assert (again.attempt, again.key) == (1, task.key)
    assert client.actors.release(task.ticket).settled_as in ("already", "refused")
    assert client.actors.beat([again.ticket])[0].stop is None
    assert visits(served.url) == [(True, 0, False)]


def test_a_step_of_a_process_goes_on_with_what_an_actor_brings(
    client: Client, served: Served
) -> None:
    """P3, P4: the process that waits for an actor elsewhere, over the network."""
    with served.worker():
        ref = client.processes.start("shop", {"order": 7})
        [task] = client.actors.pull("card.charge", wait=30).tasks
        assert task.args == {"order": 7}
        assert task.process_id == ref.id
        assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"
        assert client.processes.result(ref, timeout=30) == "paid"


def test_a_lost_answer_is_asked_for_again_at_another_server(
    client: Client, served: Served, tmp_path: Any, new_token: Callable[..., str]
) -> None:
    """Invariants 5, 7: the same pull gives the same tasks, held once, whoever is asked."""
    for order in range(3):
        client.tasks.enqueue("card.charge", {"order": order})
    pull_id = new_id()
    lost = client.actors.pull("card.charge", limit=2, pull_id=pull_id).tasks
    served.kill()
    served.start()
    elsewhere = served.client()
    again = elsewhere.actors.pull("card.charge", limit=2, pull_id=pull_id, again=True).tasks
    assert {task.ticket for task in again} == {task.ticket for task in lost}
    assert all(a.held_until > b.held_until for a in again for b in lost if a.ticket == b.ticket)
    # Asked again when all of it is settled, it is a pull like any.
    settled = elsewhere.actors.settle([completed(task.ticket, "paid") for task in again])
    assert [one.settled_as for one in settled] == ["accepted"] * 2
    rest = elsewhere.actors.pull("card.charge", limit=2, pull_id=pull_id, again=True).tasks
    assert [task.args["order"] for task in rest] == [2]


def test_answers_of_many_are_one_list_and_each_is_judged_for_itself(client: Client) -> None:
    """P4: INVALID settles nothing, and the ticket stays good."""
    client.tasks.enqueue_many("card.charge", [{"order": n} for n in range(4)])
    tasks = client.actors.pull("card.charge", limit=10).tasks
    assert len(tasks) == 4
    one, two, three, four = (task.ticket for task in tasks)
    settled = client.actors.settle(
        [
            completed(one, "paid"),
            completed(two, {"no": "text"}),
            completed(one, "twice"),
            completed(three, "a\x00b"),
            released(four),
        ]
    )
    assert [found.settled_as for found in settled] == [
        *("accepted", "invalid", "already", "invalid", "accepted")
    ]
    assert "does not fit its return type" in (settled[1].problem or "")
    assert "NUL" in (settled[3].problem or "")
    settled = client.actors.settle([completed(two, "paid"), completed(three, "paid")])
    assert [found.settled_as for found in settled] == ["accepted"] * 2


def test_a_forged_ticket_is_no_ticket(client: Client, served: Served) -> None:
    """Forged, cut, changed, of another installation: refused before anything is looked up."""
    client.tasks.enqueue("card.charge", {"order": 4})
    [task] = client.actors.pull("card.charge").tasks
    real = task.ticket
    changed = real[:20] + ("A" if real[20] != "A" else "B") + real[21:]
    for forged in ("x", real[:-4], changed, real + "AAAA", "ä" * 40, "A" * 9000, real[::-1]):
        with pytest.raises(RemoteError, match=r"is no ticket: send the text") as caught:
            client.actors.complete(forged, "stolen")
        assert caught.value.status == "INVALID_ARGUMENT"
        with pytest.raises(RemoteError, match="is no ticket"):
            client.actors.beat([real, forged])
    assert client.actors.complete(real, "paid").settled_as == "accepted"


def test_an_answer_that_comes_late_again_changes_nothing(client: Client, served: Served) -> None:
    """P4: after another attempt was settled, a repeated failure is no attempt more, and no late result is
    taken."""
    client.tasks.enqueue("card.charge", {"order": 4})
    [first] = client.actors.pull("card.charge").tasks
    assert client.actors.fail(first.ticket, OSError("no line")).settled_as == "accepted"
    [second] = client.actors.pull("card.charge", wait=10).tasks
    assert client.actors.fail(second.ticket, OSError("no line")).settled_as == "accepted"

    assert client.actors.fail(first.ticket, OSError("no line")).settled_as == "already"
    assert client.actors.complete(first.ticket, "paid").settled_as == "refused"
    assert client.actors.release(first.ticket).settled_as == "already"
    assert visits(served.url) == [(False, 2, False)]
    [third] = client.actors.pull("card.charge", wait=10).tasks
    assert client.actors.fail(first.ticket, OSError("no line")).settled_as == "already"
    assert client.actors.complete(second.ticket, "paid").settled_as == "refused"
    assert visits(served.url) == [(True, 2, False)]
    assert client.actors.complete(third.ticket, "paid").settled_as == "accepted"


def test_who_was_overtaken_gives_nothing_back(client: Client, served: Served) -> None:
    """P4: the first result is taken whoever has it; to give back is none, and the task is another's."""
    client.tasks.enqueue("card.refund", {"order": 4})
    [first] = client.actors.pull("card.refund").tasks
    with served.worker():  # which recovers it
        [second] = client.actors.pull("card.refund", wait=60).tasks
    assert client.actors.release(first.ticket).settled_as == "refused"
    [beaten] = client.actors.beat([second.ticket])
    assert beaten.stop is None
    assert client.actors.complete(second.ticket, "paid").settled_as == "accepted"


def test_an_answer_that_cannot_be_stored_fails_alone(served: Served) -> None:
    """Those that are committed with it are settled, whosever they are."""
    served.start(place=None)  # no declaration finds it first
    client = served.client()
    for order in (1, 2):
        client.processes.start("shop", {"order": order})
    tasks: list[Any] = []
    with served.worker():
        while len(tasks) < 2:
            tasks += client.actors.pull("card.charge", limit=2, wait=10).tasks
    request = actor_service_pb2.SettleTasksRequest(
        worker="till",
        settlements=[
            actor_service_pb2.Settlement(ticket=tasks[0].ticket, result_json='"paid"'),
            actor_service_pb2.Settlement(ticket=tasks[1].ticket, result_json="1e-20000"),
        ],
    )
    with grpc.insecure_channel(served.address) as channel:
        settle = actor_service_pb2_grpc.ActorServiceStub(channel).SettleTasks
        token = ("authorization", f"Bearer {served.token}")
        good, bad = settle(request, timeout=60, metadata=[token]).settled
    assert good.settled_as == actor_service_pb2.SETTLED_AS_ACCEPTED
    assert bad.settled_as == actor_service_pb2.SETTLED_AS_INVALID
    assert "cannot be stored: value overflows" in bad.problem.message
    assert client.actors.complete(tasks[1].ticket, "paid").settled_as == "accepted"


def test_who_has_a_task_locked_holds_up_no_other(served: Served) -> None:
    """Answers of other actors are settled at once; that one is told to be sent again."""
    served.start()
    client = served.client(timeout=20)
    for order in (1, 2):
        client.tasks.enqueue("card.charge", {"order": order})
        client.processes.start("shop", {"order": order})
    tasks: list[Any] = []
    with served.worker():
        while len(tasks) < 4:
            tasks += client.actors.pull("card.charge", limit=4, wait=5).tasks
    steps = [task.ticket for task in tasks if task.process_id]
    calls = [task for task in tasks if not task.process_id]
    locked = [steps[0], calls[0].ticket]
    with psycopg.connect(served.url) as connection, ThreadPoolExecutor() as pool:
        connection.execute(
            "select from mainspring.visit where key = any(%s) for update",
            ([task.task_id for task in tasks if task.ticket in locked],),
        )
        waiting = [pool.submit(client.actors.complete, ticket, "paid") for ticket in locked]
        for ticket in (steps[1], calls[1].ticket):
            assert client.actors.complete(ticket, "paid").settled_as == "accepted"
        assert [one.result(60).settled_as for one in waiting] == ["busy", "busy"]
    for ticket in locked:
        assert client.actors.complete(ticket, "paid").settled_as == "accepted"
