"""Workers as processes of their own: started, killed, or made to die at a named step."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self

from mainspring.testing.idle import FAST_SETTINGS

_PROGRAM = "from mainspring.testing.process import serve; serve()"


class WorkerProcess:
    """A worker of the application at `place` ("module:name") in a process of its own.

    `die_at` names a step at which it kills itself (SIGKILL); "step:3" is the third time. The
    application must take its address from `MAINSPRING_URL`, as `Mainspring()` does. `path` is put
    before `sys.path` there, `output` gets what the process writes. Leaving the block kills it.
    """

    _begin: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen

    def __init__(
        self,
        place: str,
        url: str,
        *,
        die_at: str | None = None,
        path: Path | None = None,
        output: IO[str] | IO[bytes] | None = None,
        drain: bool = False,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._place = place
        self._arguments = json.dumps({**FAST_SETTINGS, **settings, "drain": drain})
        self._output = output
        self._environment = {**os.environ, "MAINSPRING_URL": url, **(environment or {})}
        if die_at is not None:
            self._environment["MAINSPRING_DIE_AT"] = die_at
        if path is not None:
            known = self._environment.get("PYTHONPATH")
            self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), known)))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process; it joins the pool some tenths of a second later."""
        self._process = self._begin(
            [sys.executable, "-c", _PROGRAM, self._place, self._arguments],
            env=self._environment,
            stdout=self._output,
            stderr=self._output,
            stdin=subprocess.DEVNULL,
        )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process."""
        assert self._process is not None, "the worker was not started"
        return self._process

    def send(self, number: signal.Signals) -> None:
        """Send it a signal: SIGKILL, SIGSTOP, SIGTERM..."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 20.0) -> int:
        """Wait for its end; answers the exit code, or minus the signal that killed it."""
        return self.process.wait(timeout)

    def wait_dead(self, timeout: float = 60.0) -> None:
        """Wait until SIGKILL has ended it: proves that the crash point was reached."""
        code = self.wait(timeout)
        assert code == -signal.SIGKILL, f"the worker ended with {code}, it was to be killed"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


def serve() -> None:
    """What the process runs: the application's worker with the settings it was given."""
    place, arguments = sys.argv[1:3]
    module, _, name = place.partition(":")
    app = getattr(import_module(module), name or "app")
    app.run(**json.loads(arguments))
