"""A lock over several steps: no two processes are between its first and its last at once."""

from __future__ import annotations

from datetime import timedelta

from mainspring.processes.declare.decider_api import NAME_BYTES, scope
from mainspring.tasks.declare.options import check_text


class lock(scope):
    """What is called in the block runs while the process has the lock: `with lock("account 7") as s:`.

        @app.process
        def pay(account: int, amount: int) -> Promise[int]:
            with lock(f"account {account}") as s:
                s.returns(book(account, check(account, amount)))
            return s.promise

    It is a scope of that name: the calls in it succeed or fail together. Who asked first has the lock
    first, of all processes in the database. It is held until the scope has come to its end: all that was
    called in it has ended, or it failed and was undone, or its process has ended. Nothing of a worker is
    held meanwhile, and no worker's death releases it.
    """

    def __init__(
        self, name: str, /, *, on_error: object = None, timeout: timedelta | float | None = None
    ) -> None:
        """`timeout`: of the scope; the time in line counts."""
        check_text("a lock's name", name, NAME_BYTES)
        super().__init__(on_error=on_error, timeout=timeout, name=name)
        self._lock = name

    def __enter__(self) -> lock:
        super().__enter__()
        recorder, draft = self._inside("the lock")
        recorder.take_lock(draft, self._lock)
        return self
