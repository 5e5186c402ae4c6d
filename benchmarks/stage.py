"""The stage: the processes of one measurement - a producer and workers over one fresh store."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from benchmarks import meter
from benchmarks.catalog import Settings, System
from benchmarks.install import ROOT
from benchmarks.probe import Sight, stamps

if TYPE_CHECKING:
    from benchmarks.lab import Lab

START_SECONDS = 60.0  # for a producer to be imported, on a busy machine
FIRST_RUN_SECONDS = 40.0  # until some handler of a started worker must have run
STORE_SECONDS = 20.0  # until the store must agree that all is done
LOOK_EVERY_SECONDS = 0.02


class Failed(Exception):
    """A system did not do what the workload asks; the message becomes its record's error.

    `figures` are what was measured before that, of a workload that gives several.
    """

    def __init__(self, reason: str, figures: Sequence[Any] = ()) -> None:
        super().__init__(reason)
        self.figures = figures


class Client:
    """The harness's end of a producer process."""

    def __init__(self, command: list[str], url: str, settings: Settings, log: Path) -> None:
        self.log = log.open("ab")
        self.process = subprocess.Popen(
            [*command, "client", url, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=ROOT,
            env=environment({}),
            start_new_session=True,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end([self.process], seconds=2)
        self.log.close()

    def kill(self) -> None:
        end([self.process], seconds=0)
        self.log.close()

    def ask(self, do: str, *, timeout: float = 120, **arguments: Any) -> Any:
        self.tell(do, **arguments)
        return self.answer(timeout)

    def tell(self, do: str, **arguments: Any) -> None:
        """Begin a command without waiting; `answer` ends it."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("the producer process ended; see its log in .bench/logs") from None

    def answered(self) -> bool:
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def answer(self, timeout: float = 120) -> Any:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise Failed(f"the producer did not answer within {timeout:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the producer process ended; see its log in .bench/logs")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["ok"]


class Stage:
    """One system over one fresh store. Made by the lab, which also takes it away."""

    def __init__(
        self,
        lab: Lab,
        system: System,
        command: list[str],
        settings: Settings,
        url: str,
        slots: Path,
    ) -> None:
        self.lab = lab
        self.system = system
        self.command = command
        self.settings = settings
        self.url = url
        self.slots = slots
        self.log = lab.logs / f"{system.name}.log"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.clients: list[Client] = []
        self.spare: Client | None = self.started_client()
        self.sent: list[int] = []  # when the enqueue of each paced job returned

    def started_client(self) -> Client:
        client = Client(self.command, self.url, self.settings, self.log)
        self.clients.append(client)
        return client

    def wait_until_ready(self) -> None:
        """Until the producer at hand has started, so that it takes no time of what is measured."""
        if self.spare:
            self.spare.ask("ready", timeout=START_SECONDS)

    def client(self) -> Client:
        """A connected producer."""
        client, self.spare = self.spare or self.started_client(), None
        client.ask("open")
        return client

    def start_workers(self, n: int = 1, **env: object) -> None:
        variables = {"BENCH_SLOTS": str(self.slots), **{k: str(v) for k, v in env.items()}}
        with self.log.open("ab") as log:
            for _ in range(n):
                worker = subprocess.Popen(
                    [*self.command, "worker", self.url, json.dumps(self.settings)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=ROOT,
                    env=environment(variables),
                    start_new_session=True,
                )
                self.workers.append(worker)

    def end_workers(self) -> None:
        """In order: those of a command line have processes of their own."""
        end(self.workers, seconds=STORE_SECONDS)
        self.workers.clear()

    def stop(self) -> None:
        """End all at once: their store goes away with them."""
        end(self.workers, seconds=0)
        self.workers.clear()
        for client in self.clients:
            client.kill()
        self.clients.clear()

    def look(self) -> Sight:
        return Sight(self.slots)

    def stamps(self) -> dict[int, tuple[int, int]]:
        return stamps(self.slots)

    def wait_for(self, count: int, *, seconds: float) -> Sight:
        """Until so many handlers have run; Failed when they do not."""
        start = time.monotonic()
        while (sight := self.look()).count < count:
            self.check_workers()
            waited = time.monotonic() - start
            if waited > seconds or (not sight.count and waited > FIRST_RUN_SECONDS):
                raise Failed(f"{sight.count:,} of {count:,} jobs ran in {waited:.0f} s")
            time.sleep(LOOK_EVERY_SECONDS)
        return sight

    def check_workers(self) -> None:
        for worker in self.workers:
            if worker.poll() is not None:
                raise Failed(f"a worker ended with code {worker.returncode}; see .bench/logs")

    def wait_until_stored(self) -> str:
        """Ask the store itself until nothing is left; a note when something stays."""
        client = self.client()
        deadline = time.monotonic() + STORE_SECONDS
        while True:
            try:
                left = client.ask("remaining", timeout=STORE_SECONDS)
            except Failed as error:  # the jobs have run, and that is what was measured
                return f"whether all is complete in the store could not be told: {error}"
            if not left:
                return ""
            if time.monotonic() > deadline:
                return f"{left:,} jobs not complete in the store after {STORE_SECONDS:.0f} s"
            time.sleep(0.1)

    def worker_pids(self) -> list[int]:
        return [worker.pid for worker in self.workers]

    def worker_cpu(self) -> float:
        return meter.cpu_seconds(self.worker_pids())

    def server_cpu(self) -> float:
        redis = self.lab.redis if self.system.store == "redis" else None
        server = redis.pid if redis else self.lab.server.pid
        return meter.cpu_seconds([server] if server else [])


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours, with the adapters importable and nothing of our own virtual environment."""
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONHOME")}
    paths = [str(ROOT), str(ROOT / "src")]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore", **extra}


def end(processes: list[subprocess.Popen[bytes]], *, seconds: float) -> None:
    """Ask politely, wait so long, then end the whole group of each that we started."""
    for process in processes:
        with suppress(BrokenPipeError):
            if process.stdin:
                process.stdin.close()
        if seconds and process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        with suppress(ProcessLookupError):  # also what a dead leader has left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)
        if process.stdout:
            process.stdout.close()
