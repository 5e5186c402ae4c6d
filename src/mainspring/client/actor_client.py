"""`client.actors`: tasks pulled, kept and settled, from plain code and to be awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mainspring.client import actors
from mainspring.client.actors import BeatReply, PullReply, SettledTask
from mainspring.client.messages import Seconds
from mainspring.client.remote_call import AsyncSends, Sends
from mainspring.client.serving import ActorLoop, stop_on_signals
from mainspring.v1 import actor_service_pb2 as v1


class ActorClient:
    """`client.actors`."""

    def __init__(self, client: Sends) -> None:
        self._client = client

    def pull(
        self,
        actor: Sequence[str] | str,
        *,
        limit: int = 1,
        wait: Seconds = 0.0,
        worker: str = "",
        pull_id: str | None = None,
        again: bool = False,
    ) -> PullReply:
        """Take at most `limit` due tasks; wait for the first, at most 60 s. `again` with the `pull_id`
        of a pull whose answer was lost gives the same tasks."""
        return self._client.send(actors.pull(actor, limit, wait, worker, pull_id, again))

    def beat(self, tickets: Sequence[str]) -> list[BeatReply]:
        """Say that you are still at these."""
        return self._client.send(actors.beat(tickets))

    def settle(
        self, settlements: Iterable[v1.Settlement], *, worker: str = ""
    ) -> list[SettledTask]:
        """Say what tasks came to; `complete`, `fail` and `release` say it of one."""
        return self._client.send(actors.settle(settlements, worker))

    def complete(self, ticket: str, result: object = None, *, worker: str = "") -> SettledTask:
        """A task has a result."""
        return self.settle([actors.completed(ticket, result)], worker=worker)[0]

    def fail(self, ticket: str, error: BaseException, *, worker: str = "") -> SettledTask:
        """A task failed: retried as its actor's policy says. A TaskProblem says more."""
        return self.settle([actors.failed(ticket, error)], worker=worker)[0]

    def release(self, ticket: str, *, worker: str = "") -> SettledTask:
        """A task is given back untried, at once: no attempt is counted."""
        return self.settle([actors.released(ticket)], worker=worker)[0]


class AsyncActorClient:
    """`client.actors`."""

    def __init__(self, client: AsyncSends) -> None:
        self._client = client

    async def pull(
        self,
        actor: Sequence[str] | str,
        *,
        limit: int = 1,
        wait: Seconds = 0.0,
        worker: str = "",
        pull_id: str | None = None,
        again: bool = False,
    ) -> PullReply:
        """See ActorClient.pull."""
        return await self._client.send(actors.pull(actor, limit, wait, worker, pull_id, again))

    async def beat(self, tickets: Sequence[str]) -> list[BeatReply]:
        """Say that you are still at these."""
        return await self._client.send(actors.beat(tickets))

    async def settle(
        self, settlements: Iterable[v1.Settlement], *, worker: str = ""
    ) -> list[SettledTask]:
        """Say what tasks came to; `complete`, `fail` and `release` say it of one."""
        return await self._client.send(actors.settle(settlements, worker))

    async def complete(
        self, ticket: str, result: object = None, *, worker: str = ""
    ) -> SettledTask:
        """A task has a result."""
        return (await self.settle([actors.completed(ticket, result)], worker=worker))[0]

    async def fail(self, ticket: str, error: BaseException, *, worker: str = "") -> SettledTask:
        """A task failed: retried as its actor's policy says. A TaskProblem says more."""
        return (await self.settle([actors.failed(ticket, error)], worker=worker))[0]

    async def release(self, ticket: str, *, worker: str = "") -> SettledTask:
        """A task is given back untried, at once: no attempt is counted."""
        return (await self.settle([actors.released(ticket)], worker=worker))[0]

    def loop(
        self, functions: Mapping[str, Callable[..., object]], *, slots: int = 20, worker: str = ""
    ) -> ActorLoop:
        """What serves actors by these functions, to be run and stopped by you."""
        return ActorLoop(self._client, functions, slots=slots, worker=worker)

    async def serve(
        self, functions: Mapping[str, Callable[..., object]], *, slots: int = 20, worker: str = ""
    ) -> None:
        """Serve actors until SIGTERM or SIGINT: then what is at work is finished, the rest given back.

        A function, async or plain (in a thread), gets the task's arguments by name; `task=` too if it asks
        for it. What it returns is the result; what it raises is the failure.
        """
        loop = self.loop(functions, slots=slots, worker=worker)
        with stop_on_signals(loop):
            await loop.run()
