"""ProcessService: processes started, looked up, waited for, signalled and cancelled.

A start is idempotent by its key, or by the id that its caller made for it; a signal by its id. What the
server's code declares has its arguments checked here; others when they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainspring.errors import InvalidRequest, NotFound, UnknownProcess
from mainspring.processes.commit.signals import send_steps
from mainspring.processes.commit.start import Begin, start_steps
from mainspring.processes.record.arguments import check_attrs
from mainspring.processes.record.sealed_values import (
    check_searchable,
    opened_failure,
    opened_value,
    sealed_args,
)
from mainspring.processes.structural.request import request_cancel, request_steps
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.process_pages import list_processes
from mainspring.server.handlers.store import Store
from mainspring.server.handlers.waiting import Lookout
from mainspring.server.statements import SQL
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import Sealing
from mainspring.v1 import body_pb2, process_service_pb2


class ProcessPlace(NamedTuple):
    """Which process is meant: by the engine's id, or by its starter's key."""

    type: str
    id: str
    key: str


class ServedProcess(NamedTuple):
    """How a process stands."""

    type: str
    asked_id: str
    asked_key: str
    id: str
    state: str
    outcome: str | None
    result: str | None
    failure: str | None
    actor: str | None
    error_type: str | None
    error: str | None

    @property
    def has_ended(self) -> bool:
        return self.outcome is not None or self.state != "open"


class ProcessCalls:
    """The service's calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lookout: Lookout[ProcessPlace, ServedProcess] = Lookout(self._look)

    async def close(self) -> None:
        """Let those go who wait."""
        await self._lookout.close()

    async def start_process(
        self, caller: Caller, request: process_service_pb2.StartProcessRequest
    ) -> process_service_pb2.StartProcessResponse:
        """Start a process, once for its key or its caller's id."""
        caller.check("process.start", checks.text("type", request.type))
        if request.key and request.id:
            raise InvalidRequest("id", "and key are both set; give one of them")
        key = checks.optional_text("key", request.key, checks.KEY_BYTES)
        own = checks.uuid_of("id", request.id) if request.id else ""
        attrs = checks.json_object("attrs_json", request.attrs_json)
        check_attrs(attrs)
        self._check_clear(request.type, attrs)
        begin = Begin(
            at=checks.moment("at", request, request.at),
            priority=checks.priority("priority", request, request.priority),
        )
        args, version, pool, begin = self._arguments(request, begin)
        database = await self._store.app.database()
        steps = start_steps(
            request.type,
            key or own or None,
            args,
            shard_count=database.shard_count,
            attrs=msgspec.json.encode(attrs).decode(),
            args_version=version,
            pool=pool,
            begin=begin,
            sealing=self._store.app.sealing,
        )
        async with self._store.transaction() as tx:
            if pool is None and not await tx.one(SQL["has_process_type"], bool, type=request.type):
                raise UnknownProcess(request.type, self._store.app.processes)
            started = await tx.follow(steps)
        return process_service_pb2.StartProcessResponse(id=started.id, is_new=started.is_new)

    def _arguments(
        self, request: process_service_pb2.StartProcessRequest, begin: Begin
    ) -> tuple[str, int, str | None, Begin]:
        """The arguments as they are stored, their version, the pool and the beginning: as the code
        declares them, where it does."""
        app = self._store.app
        arguments = checks.json_object("args_json", request.args_json)
        process = app.processes.get(request.type)
        if process is None:
            return self._stored(request.args_json or "{}"), 1, None, begin
        if begin.priority is None:
            begin = msgspec.structs.replace(begin, priority=process.settings.priority)
        text = self._stored(process.signature.encode((), arguments).decode())
        return text, app.registry.versions.of(request.type), process.settings.pool, begin

    def _stored(self, args: str) -> str:
        """Arguments as they are stored."""
        sealing = self._store.app.sealing
        return args if sealing is None else sealed_args(sealing, args)

    def _check_clear(self, type: str, attrs: Mapping[str, object]) -> None:
        """Where values are encrypted, attributes are those that the code lets be in the clear."""
        if self._store.app.sealing is not None:
            process = self._store.app.processes.get(type)
            allowed = () if process is None else process.settings.searchable
            check_searchable(attrs, allowed, f"process {type!r}")

    async def get_process(
        self, caller: Caller, request: process_service_pb2.GetProcessRequest
    ) -> process_service_pb2.GetProcessResponse:
        """How a process stands; waits for its result."""
        place = _place(caller, "process.read", request.ref)
        wait = checks.wait_of(request, request.wait)
        row = await self._lookout.wait(place, lambda row: row.has_ended, wait)
        if row is None:
            raise _unknown(place)
        parked = ""
        if row.actor is not None:
            parked = f"{row.actor!r} is parked: {row.error_type}: {(row.error or '')[:300]}"
        return process_service_pb2.GetProcessResponse(
            id=row.id,
            state=row.state,
            result_json=self._result(row) if row.outcome == "ok" else None,
            problem=_problem(row, self._store.app.sealing),
            parked=parked,
        )

    def _result(self, row: ServedProcess) -> str:
        """As JSON; one that was encrypted is opened for who may read it."""
        what = f"the result of process {row.type!r}"
        return opened_value(self._store.app.sealing, row.result or "null", what)

    async def list_processes(
        self, caller: Caller, request: process_service_pb2.ListProcessesRequest
    ) -> process_service_pb2.ListProcessesResponse:
        """A page of processes, newest first."""
        return await list_processes(self._store, caller, request)

    async def signal_process(
        self, caller: Caller, request: process_service_pb2.SignalProcessRequest
    ) -> process_service_pb2.SignalProcessResponse:
        """Send a signal, once for its id: one that is known is, also when the process has ended."""
        place = _place(caller, "process.signal", request.ref)
        name = checks.text("name", request.name)
        if name.startswith("@"):  # by which locks are granted
            raise InvalidRequest("name", "begins with @, as the engine's own signals do")
        signal_id = checks.text("signal_id", request.signal_id, checks.ID_BYTES)
        payload = self._payload(name, request.payload_json or "null")
        process_id = (await self._find(place)).id
        database = await self._store.app.database()
        async with self._store.transaction() as tx:
            if await tx.first(
                SQL["find_signal"], int, process_id=process_id, name=name, id=signal_id
            ):
                return process_service_pb2.SignalProcessResponse(is_new=False)
            steps = send_steps(
                process_id,
                name,
                payload,
                shard_count=database.shard_count,
                id=signal_id,
                sent_by=caller.name,
            )
            is_new = await tx.follow(steps)
        return process_service_pb2.SignalProcessResponse(is_new=is_new)

    def _payload(self, name: str, text: str) -> str:
        value = checks.json_of("payload_json", text)
        signal = self._store.app.registry.signals.get(name)
        return self._store.app.registry.stored(text if signal is None else signal.encode(value))

    async def cancel_process(
        self, caller: Caller, request: process_service_pb2.CancelProcessRequest
    ) -> process_service_pb2.CancelProcessResponse:
        """Ask for a process to be cancelled; a worker does it next."""
        row = await self._find(_place(caller, "process.cancel", request.ref))
        if row.state != "open":
            return process_service_pb2.CancelProcessResponse(requested=False)
        database = await self._store.app.database()
        async with self._store.transaction() as tx:
            await tx.follow(request_steps([request_cancel(row.id)], database.shard_count))
        return process_service_pb2.CancelProcessResponse(requested=True)

    async def _find(self, place: ProcessPlace) -> ServedProcess:
        row = (await self._look([place])).get(place)
        if row is None:
            raise _unknown(place)
        return row

    async def _look(self, places: Sequence[ProcessPlace]) -> dict[ProcessPlace, ServedProcess]:
        rows = await self._store.rows(
            SQL["find_processes"],
            ServedProcess,
            types=[place.type for place in places],
            ids=[place.id or None for place in places],
            keys=[place.key or None for place in places],
        )
        return {ProcessPlace(row.type, row.asked_id, row.asked_key): row for row in rows}


def _place(caller: Caller, verb: str, ref: process_service_pb2.Ref) -> ProcessPlace:
    caller.check(verb, checks.text("ref.type", ref.type))
    match ref.WhichOneof("name"):
        case "id":
            return ProcessPlace(ref.type, checks.uuid_of("ref.id", ref.id), "")
        case "key":
            return ProcessPlace(ref.type, "", checks.text("ref.key", ref.key, checks.KEY_BYTES))
        case _:
            raise InvalidRequest("ref", "has neither id nor key")


def _problem(row: ServedProcess, sealing: Sealing | None) -> body_pb2.Problem | None:
    """Why there is no result and never will be."""
    if row.outcome == "err":
        failure = None if row.failure is None else msgspec.json.decode(row.failure, type=Failure)
        failure = failure and opened_failure(sealing, failure)
        code = "failed" if failure is None else failure.type
        return body_pb2.Problem(code=code, message=str(failure or "it failed"), final=True)
    if row.state == "cancelled":
        return body_pb2.Problem(code="cancelled", message="it was cancelled", final=True)
    if row.state == "finished" and row.outcome is None:
        return body_pb2.Problem(code="dropped", message="its result was dropped by age", final=True)
    return None


def _unknown(place: ProcessPlace) -> NotFound:
    return NotFound(
        f"there is no process {place.id or place.key!r} of type {place.type!r}: it was not started, or "
        "was dropped by age"
    )
