"""A service of stages as a process that tests start, kill and stop, and what it said."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import warm

APP = [sys.executable, str(Path(__file__).parent / "service_app.py")]
PATIENCE = 60.0


class Service:
    """One service at an address of its own; started again it has the same."""

    def __init__(self, command: list[str] | None = None, **environment: str) -> None:
        self.command = command or APP
        self.environment = environment
        self.port = 0
        self.said: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._heard = threading.Condition()
        self.keeper: threading.Thread | None = None
        self._kept = False
        self._readers: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        before = self.count("serves")
        begin = warm.Popen if self.command is APP else subprocess.Popen
        self._process = begin(
            [*self.command, f"127.0.0.1:{self.port}"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        reader.start()
        self._readers.append(reader)
        self.wait(lambda: self.count("serves") > before)
        self.port = int(self.lines("serves")[-1].split()[1])

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._heard:
                self.said.append(line.strip())
                self._heard.notify_all()
        process.stdout.close()

    def wait(self, seen: Callable[[], bool]) -> None:
        """Wait until something of what it says is so."""
        deadline = time.monotonic() + PATIENCE
        with self._heard:
            while not seen():
                left = deadline - time.monotonic()
                assert left > 0, f"it said only {self.said[-20:]}"
                self._heard.wait(min(left, 1))

    async def until(self, seen: Callable[[], bool]) -> None:
        """The same, for a test that awaits."""
        await asyncio.to_thread(self.wait, seen)

    def lines(self, word: str) -> list[str]:
        return [line for line in list(self.said) if line.split()[:1] == [word]]

    def count(self, word: str) -> int:
        return len(self.lines(word))

    def ids(self, word: str = "Process") -> list[list[str]]:
        """The ids of each call."""
        return [line.split()[1:] for line in self.lines(word)]

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def keep_up(self) -> None:
        """From now on it is started again whenever it dies, as a supervisor would."""
        self._kept = True

        def keep() -> None:
            while self._kept:
                assert self._process is not None
                try:
                    self._process.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
                if self._kept:
                    self.start()

        self.keeper = threading.Thread(target=keep, daemon=True)
        self.keeper.start()

    def end(self) -> None:
        self._kept = False
        if self.keeper is not None:
            self.keeper.join(PATIENCE)
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        if self._process is not None:
            self._process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
