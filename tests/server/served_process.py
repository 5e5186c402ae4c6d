"""A server as a process of its own: started, killed, started again at the same address, called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import warm
from mainspring.client import Client

HERE = Path(__file__).parent


class Served:
    """A server process on one port: killed, started again, called."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.address = ""
        self.http_address = ""
        self.process: subprocess.Popen[str] | None = None
        self._stack = ExitStack()

    def start(self, *options: str, place: str | None = "server_app:app", port: str = "0") -> None:
        """Start it, and wait until it says where it listens."""
        if "--grpc" not in options and "--http" not in options:
            options = ("--grpc", self.address or f"127.0.0.1:{port}", *options)
        log = self._stack.enter_context((self.folder / "server.log").open("ab"))
        self.process = warm.Popen(
            [
                sys.executable,
                "-m",
                "mainspring.cli.main",
                "serve",
                *([place] if place else []),
                *options,
            ],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self.process.stdout is not None
        for option, name in (("--grpc", "gRPC"), ("--http", "HTTP")):
            if option in options:
                line = self.process.stdout.readline()
                assert line.startswith(f"serving {name} at "), self.log
                if name == "gRPC":
                    self.address = line.split()[3]
                else:
                    self.http_address = line.split()[3]

    def start_http(self, *options: str, place: str | None = "server_app:app") -> None:
        """Start it with HTTP alone, at the address that it had before."""
        if "--http" not in options:
            options = ("--http", self.http_address or "127.0.0.1:0", *options)
        self.start(*options, place=place)

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        own = {"MAINSPRING_URL": self.url, "PYTHONPATH": paths, "SERVER_FOLDER": str(self.folder)}
        return {**os.environ, **own}

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    @property
    def token(self) -> str:
        """That of this machine, which the server made."""
        return (self.folder / ".mainspring" / "token").read_text().strip()

    def client(self, **options: Any) -> Client:
        options.setdefault("token", self.token)
        return self._stack.enter_context(Client(self.address, **options))

    def worker(self) -> warm.WorkerProcess:
        """A worker process for the time of a `with` block."""
        output = self._stack.enter_context((self.folder / "worker.log").open("wb"))
        environment = {"SERVER_FOLDER": str(self.folder)}
        return warm.WorkerProcess(
            "server_app:app", self.url, path=HERE, output=output, environment=environment
        )

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def close(self) -> None:
        self._stack.close()
        if self.process is not None and self.process.poll() is None:
            self.kill()
        elif self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
