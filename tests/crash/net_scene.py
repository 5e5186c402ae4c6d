"""A scene whose workers reach their database by a network of their own, which can be cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import net_app
from scene import HERE, Scene

from mainspring.testing import WorkerProcess
from netns import Network


class NetScene(Scene):
    """The test itself asks the server by its Unix socket, whatever becomes of the network."""

    place = "net_app:app"
    process = WorkerProcess  # of a thread that is in the network

    def __init__(self, network: Network, url: str, folder: Path, net_url: str) -> None:
        super().__init__(url, folder)
        self.app.close_sync()
        self.app = net_app.make(url)
        self.network = network
        self.net_url = net_url
        self._processes = ExitStack()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.network.heal()
        super().__exit__(kind, error, trace)
        self._processes.close()

    def slow(self, round_trip: float) -> None:
        """From now on workers are started with a round trip of so many seconds."""
        database = self.net_url.rpartition("/")[2]
        self.net_url = self._processes.enter_context(self.network.slow(database, round_trip))

    def worker(self, *, environment: Any = None, **settings: Any) -> WorkerProcess:
        there = {"MAINSPRING_URL": self.net_url, **(environment or {})}
        with self.network.in_workers():
            return super().worker(environment=there, **{"fence": "exit", **settings})

    def near_worker(self, **settings: Any) -> WorkerProcess:
        """One that needs no network to reach the server."""
        return super().worker(**settings)

    def supervised(self, *, lease: float) -> subprocess.Popen[bytes]:
        """`mainspring worker` with one process, behind the network."""
        environment = {
            **os.environ,
            "MAINSPRING_URL": self.net_url,
            "CRASH_FOLDER": str(self.folder),
            "PYTHONPATH": str(HERE),
        }
        command = [sys.executable, "-c", "import mainspring_cli; mainspring_cli.run()"]
        command += ["worker", self.place, "--lease", str(lease)]
        output = self._processes.enter_context((self.folder / "worker-supervised").open("wb"))
        with self.network.in_workers():
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.callback(_end, process)
        return process

    def shorten(self) -> None:
        """What is run from now on takes no time."""
        self.sql("update mainspring.visit set payload = payload || '{\"seconds\": 0}'")

    def joined(self, *workers: WorkerProcess) -> None:
        """With patience: they start side by side with a server of their own."""
        pids = {worker.process.pid for worker in workers}
        self.wait(lambda: pids <= self.shards().keys(), "all workers have shards", 90)

    # -- what happened

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("worker-*")))

    def said(self, event: str) -> int:
        """How often the workers said so."""
        return sum(f" {event} " in f"{line} " for line in self.log().splitlines())

    def parked(self) -> int:
        return int(
            self.sql("select count(*) from mainspring.visit where parked_at is not null")[0][0]
        )

    def waiting(self) -> int:
        return int(self.sql("select count(*) from mainspring.visit")[0][0])


def _end(process: subprocess.Popen[bytes]) -> None:
    """A supervisor: twice signalled it ends its processes with it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(60)
