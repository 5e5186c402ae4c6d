"""Several server processes at one address: started by exec, replaced when they die, stopped together.

They share the port by SO_REUSEPORT: the kernel gives each connection to one of them. The parent holds the
port without listening, so that it stays ours while a process is replaced.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType

from mainspring.server.listening import cannot_listen
from mainspring.server.settings import ListenAddress

log = logging.getLogger("mainspring")
LOOK_SECONDS = 0.05
LONGEST_PAUSE = 5.0
STEADY_SECONDS = 10.0
START_TRIES = 5
GRACE_SECONDS = 15.0


def hold_port(host: str, port: int) -> socket.socket:
    """A socket that keeps the port for processes of ours; one that others have is refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        _bind(
            probe, host, port
        )  # alone: else we would share it with another server of the same user
        port = probe.getsockname()[1]
    held = socket.socket(family, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    _bind(held, host, port)
    return held


def hold_address(stack: ExitStack, address: ListenAddress | None) -> str | None:
    """The address with a port that is kept for processes of ours, until the stack ends."""
    if address is None or address.socket is not None:
        return None if address is None else address.text
    held = stack.enter_context(hold_port(address.host, address.port))
    return address.with_port(held.getsockname()[1])


def _bind(found: socket.socket, host: str, port: int) -> None:
    try:
        found.bind((host, port))
    except OSError as error:
        raise cannot_listen(f"{host}:{port}", error) from error


class ServerProcesses:
    """So many processes of one command."""

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command = list(command)
        self._seats: list[subprocess.Popen[bytes] | None] = [None] * count
        self._began = [0.0] * count
        self._start_at = [0.0] * count
        self._deaths = [0] * count
        self._stopped_at: float | None = None

    def run(self) -> int:
        """Until a signal stops them; the exit code is theirs if none of them can start."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        while True:
            now = time.monotonic()
            for n in range(len(self._seats)):
                if (code := self._look_at(n, now)) is not None:
                    self._stop(now)
                    self._wait()
                    return code
            if self._stopped_at is not None:
                self._wait()
                return 0
            time.sleep(LOOK_SECONDS)

    def _look_at(self, n: int, now: float) -> int | None:
        """Start a process where there is none; returns a code if that is of no use any more."""
        process = self._seats[n]
        if process is None:
            if now >= self._start_at[n] and self._stopped_at is None:
                self._seats[n] = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, start_new_session=True
                )
                self._began[n] = now
            return None
        if (code := process.poll()) is None:
            return None
        self._seats[n] = None
        if self._stopped_at is not None:
            return None  # it was told to end, perhaps before it could hear that in order
        self._deaths[n] = 1 if now - self._began[n] > STEADY_SECONDS else self._deaths[n] + 1
        if self._deaths[n] >= START_TRIES:
            log.error("serve.given_up", extra={"code": code})
            return max(1, code)
        pause = min(LONGEST_PAUSE, 0.1 * 2 ** self._deaths[n])
        self._start_at[n] = now + pause
        log.error("serve.process_died", extra={"code": code, "restart_after": pause})
        return None

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self._stop(time.monotonic())

    def _stop(self, now: float) -> None:
        if self._stopped_at is None:
            self._stopped_at = now
        for process in self._seats:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)

    def _wait(self) -> None:
        until = time.monotonic() + GRACE_SECONDS
        for process in self._seats:
            if process is None:
                continue
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
