"""T13: what functions need and no payload has, made and ended per worker and per run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring import Mainspring, Promise, RetryPolicy
from mainspring.errors import InvalidArguments, InvalidSetting, InvalidTask, TaskFailed
from mainspring.hooks.depend import Depends, provider
from mainspring.hooks.told import RunInfo
from mainspring.testing import run_until_idle

told: list[str] = []


class Client:
    pass


class Session:
    def __init__(self, client: Client, group: str | None) -> None:
        self.client = client
        self.group = group


@provider(per="worker")
async def client() -> AsyncIterator[Client]:
    told.append("client made")
    yield Client()
    told.append("client ended")


@provider()
def session(run: RunInfo, client: Client = Depends(client)) -> Iterator[Session]:
    told.append(f"session of {run.task}")
    try:
        yield Session(client, run.group)
    except ValueError:
        told.append("rolled back")
        raise
    finally:
        told.append("session ended")


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    told.clear()


async def test_what_is_needed_is_made_and_ended_per_worker_and_per_run(app: Mainspring) -> None:
    """T13: in async functions, in threads and in steps; it is in no payload."""
    clients: set[int] = set()

    @app.task
    async def first(text: str, db: Session = Depends(session), c: Client = Depends(client)) -> str:
        clients.add(id(c))
        assert db.client is c, "one client is one to all that need it in a run"
        return f"{text} {db.group}"

    @app.task
    def second(db: Session = Depends(session)) -> None:
        clients.add(id(db.client))

    @app.process
    async def steps(n: int) -> Promise[str]:
        return first(str(n))

    handle = await first.options(group="acme").enqueue("hello")
    await second.enqueue()
    process = await steps.start(7)
    assert first.bind("x").payload == b'{"text":"x"}'
    await run_until_idle(app)

    assert await handle.result(timeout=1) == "hello acme"
    assert await process.result(timeout=10) == "7 None"
    assert len(clients) == 1
    assert (told[0], told[-1]) == ("client made", "client ended")
    assert sorted(told[1:-1]) == sorted(
        ["session of first", "session ended"] * 2 + ["session of second", "session ended"]
    )


async def test_a_failure_of_the_run_is_raised_inside_of_what_it_needs(app: Mainspring) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def fail(db: Session = Depends(session)) -> None:
        raise ValueError("no")

    handle = await fail.enqueue()
    await run_until_idle(app)
    with pytest.raises(TaskFailed, match="ValueError: no"):
        await handle.result(timeout=1)
    assert told[1:4] == ["session of fail", "rolled back", "session ended"]


async def test_a_worker_whose_dependency_cannot_be_made_takes_no_work(app: Mainspring) -> None:
    @provider(per="worker")
    async def away() -> Client:
        raise OSError("nobody there")

    @app.task
    async def work(c: Client = Depends(away)) -> None: ...

    handle = await work.enqueue()
    with pytest.raises(
        RuntimeError, match="what runs depend on could not be made: OSError: nobody"
    ):
        await run_until_idle(app)
    assert await handle.status() == "waiting"


async def test_a_dependency_is_no_argument_and_is_checked_when_it_is_declared(
    app: Mainspring,
) -> None:
    @app.task
    async def work(c: Client = Depends(client)) -> None: ...

    with pytest.raises(InvalidArguments, match="unknown field `c`"):
        await work.enqueue(c=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="Depends takes a provider, got 7"):
        Depends(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="which ends long before it: have both per worker"):

        @provider(per="worker")
        async def keeps(db: Session = Depends(session)) -> Session:
            return db

    with pytest.raises(InvalidSetting, match="has the parameter 'name', which nobody gives it"):

        @provider()
        async def named(name: str) -> str:
            return name

    with pytest.raises(InvalidSetting, match='per must be "run" or "worker", got'):
        provider(per="day")(client.function)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="depends on 'c', which its worker provides"):

        @app.task(remote=True)
        async def elsewhere(c: Client = Depends(client)) -> None: ...
