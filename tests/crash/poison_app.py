"""An application of which a step of a process kills every worker that runs it."""

from __future__ import annotations

import os
import signal

from mainspring import Failure, Mainspring, Outcome, Promise, scope

app = Mainspring()


@app.task(crash_limit=2)
def deadly(n: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return n


@app.task
def tell(outcome: Outcome[int]) -> str:
    return "" if outcome.failure is None else f"{outcome.failure}"


@app.process
def caught(n: int) -> Promise[str]:
    return tell(deadly(n))


@app.task
def handle(failure: Failure) -> str:
    return failure.type


@app.process
def scoped(n: int) -> Promise[str]:
    with scope() as s:
        s.on_error(handle)
        s.returns(deadly(n))
    return s.promise


@app.process
def uncaught(n: int) -> Promise[int]:
    return deadly(n)


@app.process(crash_limit=1)
def fatal() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
