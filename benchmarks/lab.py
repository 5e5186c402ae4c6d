"""The lab: one private PostgreSQL (and a Redis where some system needs it) for a whole run.

Every measurement gets a database of its own, cloned from one that was migrated and filled
once per system and size. So each run starts from the same pages, and a peer that enqueues
slowly is not waited for three times.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from benchmarks import install
from benchmarks.catalog import Settings, System
from benchmarks.stage import Client, Stage
from mainspring.embedded.server import EmbeddedServer

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "4GB", "synchronous_commit": "on"}
FILL_SECONDS = 240
REDIS_SECONDS = 10
BY_FILES = 200_000  # from so many rows on a clone copies files instead of pages through the log

Recipe = tuple[tuple[str, Any], ...]  # arguments of Producer.bulk, as a key


class Lab:
    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mainspring-bench-"))
        self.home.chmod(0o755)  # the server may run under another user
        self.logs = install.HOME / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.server = EmbeddedServer(self.home / "pg", settings=SETTINGS)
        self.templates: dict[tuple[str, Recipe], str] = {}
        self.redis: subprocess.Popen[bytes] | None = None
        self.redis_port = 0
        self.count = 0

    def __enter__(self) -> Lab:
        self.server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.kill()  # nobody reads its data again
        if self.redis:
            self.redis.kill()
            self.redis.wait(10)
        shutil.rmtree(self.home, ignore_errors=True)

    def revive(self) -> None:
        """Start the server again if the run before has left it down."""
        if not self.server.running:
            self.server.start()

    def version(self) -> str:
        with self.admin() as connection:
            row = connection.execute("show server_version").fetchone()
        return f"PostgreSQL {row[0]}" if row else "PostgreSQL"

    @contextmanager
    def stage(
        self, system: System, settings: Settings, *, jobs: int = 0, **how: Any
    ) -> Iterator[Stage]:
        """A fresh store of this system, migrated and holding so many jobs."""
        command = install.command(system)
        slots = Path(tempfile.mkdtemp(prefix="slots-", dir=self.home))
        recipe: Recipe = (("n", jobs), *sorted(how.items())) if jobs else ()
        self.count += 1
        name = f"run_{self.count}" if system.store == "postgres" else ""
        url = self.server.url(name) if name else self.empty_redis()
        # The producer's process starts while the store is made: importing takes as long.
        stage = Stage(self, system, command, settings, url, slots)
        try:
            if name:
                template = self.template(system, command, settings, recipe)
                self.clone(template, name, by_files=jobs >= BY_FILES)
            elif recipe:
                self.fill(system, command, url, settings, recipe)
            stage.wait_until_ready()
            yield stage
        finally:
            stage.stop()
            if name:
                self.drop(name)
            shutil.rmtree(slots, ignore_errors=True)

    def template(
        self, system: System, command: list[str], settings: Settings, recipe: Recipe
    ) -> str:
        key = (system.name, recipe)
        if key not in self.templates:
            self.count += 1
            name = f"template_{self.count}_{system.name}"
            try:
                if recipe:
                    self.clone(self.template(system, command, settings, ()), name, by_files=False)
                else:
                    self.run(f"create database {name}")
                self.fill(system, command, self.server.url(name), settings, recipe)
            except BaseException:
                self.drop(name)
                raise
            self.templates[key] = name
        return self.templates[key]

    def fill(
        self, system: System, command: list[str], url: str, settings: Settings, recipe: Recipe
    ) -> None:
        with Client(command, url, settings, self.logs / f"{system.name}.log") as client:
            if recipe:
                client.ask("open")
                client.ask("bulk", timeout=FILL_SECONDS, **dict(recipe))
            else:
                client.ask("migrate")
        if system.store == "postgres":
            self.tidy(url, filled=bool(recipe))

    def clone(self, template: str, name: str, *, by_files: bool) -> None:
        """A copy of a template, vacuumed and analyzed as that one, and nothing left to flush."""
        strategy = "file_copy" if by_files else "wal_log"
        self.run(f"create database {name} template {template} strategy {strategy}")
        self.run("checkpoint")

    def tidy(self, url: str, *, filled: bool) -> None:
        """The same starting point for every timed part.

        Empty tables are left alone: analyzed while empty, they get scans from plans cached
        before the first rows came, and procrastinate then enqueued at a tenth of its rate.
        """
        with psycopg.connect(url, autocommit=True) as connection:
            if filled:
                connection.execute("vacuum analyze")
            connection.execute("checkpoint")

    def drop(self, name: str) -> None:
        with suppress(psycopg.Error):
            self.run(f"drop database if exists {name} with (force)")

    def run(self, statement: str) -> None:
        with self.admin() as connection:
            connection.execute(statement.encode())

    def admin(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.server.url("postgres"), autocommit=True)

    def wal_bytes(self) -> int:
        """Where the write-ahead log stands."""
        with self.admin() as connection:
            row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone()
        return int(row[0]) if row else 0

    def empty_redis(self) -> str:
        if self.redis is None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.redis_port = free.getsockname()[1]
            options = ["--port", str(self.redis_port), "--save", "", "--appendonly", "no"]
            self.redis = subprocess.Popen(
                [install.redis_server(), "--bind", "127.0.0.1", *options],
                cwd=self.home,
                stdout=subprocess.DEVNULL,
            )
        with self.to_redis() as connection:
            connection.sendall(b"FLUSHALL\r\n")
            connection.recv(64)
        return f"redis://127.0.0.1:{self.redis_port}/0"

    def to_redis(self) -> socket.socket:
        """A connection, waited for while the server starts."""
        deadline = time.monotonic() + REDIS_SECONDS
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.redis_port), timeout=10)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
