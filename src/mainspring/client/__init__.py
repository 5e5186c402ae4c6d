"""A client of `mainspring serve`, which needs grpcio and protobuf and nothing else of Mainspring.

    from mainspring.client import Client

    with Client("127.0.0.1:7411", token=token) as client:
        call = client.tasks.enqueue("mail.send", {"to": "ann@example.org"})
        print(client.tasks.result(call, timeout=60))

Every call has a deadline. A call that may have been lost is sent again under the same id, so it is done
once; nothing else is repeated. `AsyncClient` is the same to be awaited.

actor_client.py  client.actors
actors.py        requests of actors
async_client.py  AsyncClient
channel.py       where the server is, and by which proof it is called
client.py        Client
messages.py      values as messages and back
params.py        requests about params
processes.py     requests about processes
remote_call.py   one call: its request, its answer, its time, and whether it may be repeated
remote_error.py  what the server refused
served.py        a function that serves an actor, and a task for it
serving.py       a loop that serves actors
started.py       an async function that was called up to where it first suspends
states.py        requests about states
tasks.py         requests about tasks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.errors import MissingExtra
from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.client.actors import PulledTask, PullReply, SettledTask, TaskProblem
    from mainspring.client.async_client import AsyncClient
    from mainspring.client.client import Client
    from mainspring.client.params import ParamValue, TaskAffected
    from mainspring.client.processes import ProcessRef, ProcessStatus
    from mainspring.client.remote_error import RemoteError, ServerAway
    from mainspring.client.states import StateRead
    from mainspring.client.tasks import EnqueueOptions, TaskRef, TaskStatus

__all__ = [
    "AsyncClient",
    "Client",
    "EnqueueOptions",
    "ParamValue",
    "ProcessRef",
    "ProcessStatus",
    "PullReply",
    "PulledTask",
    "RemoteError",
    "ServerAway",
    "SettledTask",
    "StateRead",
    "TaskAffected",
    "TaskProblem",
    "TaskRef",
    "TaskStatus",
]

if not TYPE_CHECKING:
    _find = on_demand(
        __name__,
        {
            "actors": "PulledTask PullReply SettledTask TaskProblem",
            "async_client": "AsyncClient",
            "client": "Client",
            "params": "ParamValue TaskAffected",
            "processes": "ProcessRef ProcessStatus",
            "remote_error": "RemoteError ServerAway",
            "states": "StateRead",
            "tasks": "EnqueueOptions TaskRef TaskStatus",
        },
    )

    def __getattr__(name: str) -> object:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("grpc", "google"):
                raise
            raise MissingExtra("the client", error.name, "grpc") from None

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
