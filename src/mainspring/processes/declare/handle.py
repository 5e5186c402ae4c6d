"""A process that was started: where it is, what it came to, and messages to it."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, overload
from uuid import UUID

import msgspec

from mainspring.db.caller import Caller
from mainspring.declaring import Seconds
from mainspring.errors import InvalidKey, NotFound, ProcessFailed
from mainspring.ids import new_id
from mainspring.processes.declare.decider_api import Signal
from mainspring.processes.declare.question import FoundAnswer, ProcessView, Question
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.wait import wait_for, wait_for_sync

R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")


def check_own_id(id: str) -> None:
    """A handle is for the id that the engine gave; one that a user gave needs its type and a look."""
    try:
        UUID(id)
    except (ValueError, AttributeError, TypeError):
        raise InvalidKey(
            f"{id!r} is no process's own id, which is a UUID (handle.id); if it is the one that you "
            f"gave, ask for it: (await app.operator.processes.find({id!r})).id"
        ) from None


class Sent(msgspec.Struct, frozen=True):
    """A signal on its way. The same id is the same signal."""

    signal: Signal[Any] | str  # itself, or its name
    payload: object = None
    id: str | None = None
    sent_by: str = ""


class Found(msgspec.Struct, frozen=True):
    """A process as it stands."""

    state: str  # open, finished, cancelled, or unknown
    outcome: str | None = None  # of its result: ok, err
    result: Any = None
    failure: Failure | None = None
    parked: str | None = None  # the first parked task while there is no result, and its error


class CancelPart(msgspec.Struct, frozen=True):
    """The part of a process that is to be cancelled; neither: all of it."""

    task: str | None = None  # its id, or an actor
    scope: str | None = None
    why: str = "called off"


class ProcessLookup(Protocol):
    """What looks processes up and sends them signals: the application."""

    async def look_up_process(self, type: str, id: str) -> Found: ...
    def look_up_process_sync(self, type: str, id: str) -> Found: ...
    async def send_signal(self, process_id: str, sent: Sent, on: Caller | None) -> bool: ...
    def send_signal_sync(self, process_id: str, sent: Sent, on: Caller | None) -> bool: ...
    async def look_up_answer(self, process_id: str, name: str, id: str) -> FoundAnswer: ...
    def look_up_answer_sync(self, process_id: str, name: str, id: str) -> FoundAnswer: ...
    async def view_process(self, process_id: str) -> ProcessView: ...
    def view_process_sync(self, process_id: str) -> ProcessView: ...
    async def request_cancel(
        self, process_id: str, on: Caller | None, cancel: CancelPart, *, compensate: bool
    ) -> None: ...
    def request_cancel_sync(
        self, process_id: str, on: Caller | None, cancel: CancelPart, *, compensate: bool
    ) -> None: ...


class ProcessHandle(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """A process. `is_new` is False when its id was taken and the one that has it was answered."""

    type: str
    id: str
    is_new: bool
    _lookup: ProcessLookup

    def __repr__(self) -> str:
        return f"<process {self.type} {self.id}>"

    async def status(self) -> str:
        """open, finished or cancelled."""
        return (await self._lookup.look_up_process(self.type, self.id)).state

    def status_sync(self) -> str:
        """The same for code that is not async."""
        return self._lookup.look_up_process_sync(self.type, self.id).state

    async def result(self, timeout: Seconds | None = None) -> R:
        """Wait for the result; raises `ProcessFailed` or `ResultTimeout` (seconds).

        It is there when the process's own promise is kept; other branches may still be open. While a
        step is parked it is waited for, and so is a database that goes away meanwhile.
        """
        return await wait_for(
            lambda: self._lookup.look_up_process(self.type, self.id),
            self._ended,
            self._late,
            timeout,
        )

    def result_sync(self, timeout: Seconds | None = None) -> R:
        """The same for code that is not async."""
        return wait_for_sync(  # type: ignore[no-any-return]
            lambda: self._lookup.look_up_process_sync(self.type, self.id),
            self._ended,
            self._late,
            timeout,
        )

    @overload
    async def signal(
        self,
        signal: Signal[None],
        payload: None = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    @overload
    async def signal(
        self,
        signal: Signal[S],
        payload: S,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    @overload
    async def signal(
        self,
        signal: str,
        payload: object = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    async def signal(
        self,
        signal: Signal[Any] | str,
        payload: object = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool:
        """Send a signal; it is kept until the process waits for it. Answers whether it is new.

        `id`: sent twice under one id it is one signal. `sent_by`: who answered, for the record.
        `on`: your own connection or session (psycopg, asyncpg, SQLAlchemy, Django); the signal is
        part of its transaction.
        """
        return await self._lookup.send_signal(self.id, Sent(signal, payload, id, sent_by), on)

    @overload
    def signal_sync(
        self,
        signal: Signal[None],
        payload: None = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    @overload
    def signal_sync(
        self,
        signal: Signal[S],
        payload: S,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    @overload
    def signal_sync(
        self,
        signal: str,
        payload: object = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool: ...
    def signal_sync(
        self,
        signal: Signal[Any] | str,
        payload: object = None,
        *,
        id: str | None = None,
        sent_by: str = "",
        on: Caller | None = None,
    ) -> bool:
        """The same for code that is not async."""
        return self._lookup.send_signal_sync(self.id, Sent(signal, payload, id, sent_by), on)

    async def ask(
        self,
        question: Question[S, A],
        payload: S,
        *,
        id: str | None = None,
        sent_by: str = "",
        timeout: Seconds | None = None,
    ) -> A:
        """Send a question and wait for its answer; raises `ProcessFailed` or `ResultTimeout` (seconds).

        It is kept until the process takes it. `id`: asked again under it, it is the same question, whose
        answer may be there already.
        """
        once = id if id is not None else new_id()
        if id is None or not (await self._lookup.look_up_answer(self.id, question.name, id)).taken:
            await self._lookup.send_signal(self.id, Sent(question, payload, once, sent_by), None)
        return await wait_for(
            lambda: self._lookup.look_up_answer(self.id, question.name, once),
            lambda found: question.found(self.id, found),
            lambda found, seconds: self._unanswered(question.name, found, seconds),
            timeout,
        )

    def ask_sync(
        self,
        question: Question[S, A],
        payload: S,
        *,
        id: str | None = None,
        sent_by: str = "",
        timeout: Seconds | None = None,
    ) -> A:
        """The same for code that is not async."""
        once = id if id is not None else new_id()
        if id is None or not self._lookup.look_up_answer_sync(self.id, question.name, id).taken:
            self._lookup.send_signal_sync(self.id, Sent(question, payload, once, sent_by), None)
        return wait_for_sync(
            lambda: self._lookup.look_up_answer_sync(self.id, question.name, once),
            lambda found: question.found(self.id, found),
            lambda found, seconds: self._unanswered(question.name, found, seconds),
            timeout,
        )

    async def view(self) -> ProcessView:
        """What is seen of it while it runs: attributes, numbers of tasks, signals that it waits for."""
        return await self._lookup.view_process(self.id)

    def view_sync(self) -> ProcessView:
        """The same for code that is not async."""
        return self._lookup.view_process_sync(self.id)

    def _unanswered(self, name: str, found: FoundAnswer, seconds: float) -> str:
        how = "has taken it" if found.taken else "does not wait for it yet"
        return (
            f"process {self.type!r} {self.id} has not answered {name!r} after {seconds:g} s: it {how}; "
            f"ask `mainspring processes why {self.id}`"
        )

    async def cancel(
        self,
        *,
        compensate: bool = True,
        task: str | None = None,
        scope: str | None = None,
        why: str = "called off",
        on: Caller | None = None,
    ) -> None:
        """Ask for the process to be cancelled, with its child processes: a worker does it next.

        What was done and can be undone is undone first, unless `compensate=False`. `task` (an id, or an
        actor: its live ones) or `scope` (a name) call off that part alone, and the rest goes on: who waits
        for the task is told `Cancelled` and `why`; the scope is undone and its handler runs.
        """
        part = CancelPart(task, scope, why)
        await self._lookup.request_cancel(self.id, on, part, compensate=compensate)

    def cancel_sync(
        self,
        *,
        compensate: bool = True,
        task: str | None = None,
        scope: str | None = None,
        why: str = "called off",
        on: Caller | None = None,
    ) -> None:
        """The same for code that is not async."""
        part = CancelPart(task, scope, why)
        self._lookup.request_cancel_sync(self.id, on, part, compensate=compensate)

    def _has_ended(self, found: Found) -> bool:
        if found.state == "unknown":
            raise NotFound(
                f"process {self.type!r} {self.id} is not there: its start was not committed, or it was "
                "dropped by age"
            )
        if found.state == "finished" and found.outcome is None:
            raise NotFound(
                f"process {self.type!r} {self.id} has finished: its result was dropped by age"
            )
        if found.outcome == "err" or found.state == "cancelled":
            raise ProcessFailed(
                f"process {self.type!r} {self.id} came to no result: "
                f"{found.failure or 'it was cancelled'}",
                state=found.state,
                failure=found.failure,
            )
        return found.outcome == "ok"

    def _ended(self, found: Found) -> tuple[Any] | None:
        return (found.result,) if self._has_ended(found) else None

    def _late(self, found: Found, seconds: float) -> str:
        parked = f": {found.parked}" if found.parked is not None else ""
        return (
            f"process {self.type!r} {self.id} has no result after {seconds:g} s{parked}; "
            f"ask `mainspring processes why {self.id}`"
        )
