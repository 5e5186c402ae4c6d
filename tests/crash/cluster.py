"""A primary and a standby of it, real servers: killed, promoted, and built anew from each other."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from mainspring.embedded.binaries import account_of, execute, runnable_binaries
from mainspring.embedded.server import PORT, ROLE, EmbeddedServer

SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "wal_keep_size": "256MB", "hot_standby": "on"}


class Cluster:
    """Two hosts; which of them is the primary changes. Use it as a context manager."""

    def __init__(self, *, synchronous: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-cluster-", dir="/tmp"))
        self._folder.chmod(0o755)  # the account that runs a standby walks to its primary's socket
        chosen = os.environ.get("MAINSPRING_TEST_BIN")
        self._bin_dir = Path(chosen) if chosen else None
        names = "*" if synchronous else ""
        self._settings = {**SETTINGS, "synchronous_standby_names": names}
        self.nodes = [self._node(self._folder / name) for name in ("one", "two")]

    def _node(self, directory: Path) -> EmbeddedServer:
        return EmbeddedServer(directory, bin_dir=self._bin_dir, settings=self._settings)

    @property
    def primary(self) -> EmbeddedServer:
        return self.nodes[0]

    @property
    def standby(self) -> EmbeddedServer:
        return self.nodes[1]

    def __enter__(self) -> Self:
        try:
            self.primary.start()
            alone = "-csynchronous_commit=local"  # it would wait for a standby
            with psycopg.connect(
                self.primary.url("postgres"), autocommit=True, options=alone
            ) as connection:
                connection.execute("create database mainspring")
            self.build_standby()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Both hosts, in an order that never changes, as applications have it."""
        places = ",".join(sorted(str(node.socket_dir) for node in self.nodes))
        query = f"host={places}&port={PORT}&target_session_attrs=read-write"
        return f"postgresql://{ROLE}@/mainspring?{query}"

    def build_standby(self) -> None:
        """Make the second node a copy of the first, and let it follow."""
        data = self.standby.data
        shutil.rmtree(data, ignore_errors=True)
        data.parent.mkdir(parents=True, exist_ok=True)
        account = account_of(self.primary.data)
        programs, _ = runnable_binaries(self._bin_dir, account)
        data.mkdir(mode=0o700)
        if account:
            os.chown(data, *account)
        fd = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        source = os.open(self.primary.socket_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            command = [
                *(programs / "pg_basebackup", "-D", f"/proc/self/fd/{fd}", "-X", "stream"),
                *("-c", "fast", "-U", ROLE, "-h", f"/proc/self/fd/{source}", "-p", str(PORT)),
            ]
            log = data.parent / "basebackup.log"
            with log.open("wb") as output:
                done = execute(command, account, output, [fd, source])
            assert done.returncode == 0, log.read_text()
        finally:
            os.close(fd)
            os.close(source)
        where = f"host={self.primary.socket_dir} port={PORT} user={ROLE}"
        (data / "standby.signal").touch()
        for copied in data.glob(".s.PGSQL.*"):  # the primary's own
            copied.unlink()
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{where}'\n")
        self.standby.start()
        self.wait_in_step()

    def wait_in_step(self) -> None:
        """Until the standby has what the primary has, and is waited for if it is synchronous."""
        state = "sync" if self._settings["synchronous_standby_names"] else "async"
        query = (
            "select count(*) from pg_stat_replication where sync_state = %s and state = 'streaming'"
        )
        wait(lambda: ask(self.primary, query, state) == [(1,)])

    def part(self) -> None:
        """The standby hears no more of the primary; nobody else notices."""
        with psycopg.connect(self.standby.url("postgres"), autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
        wait(lambda: ask(self.primary, "select count(*) from pg_stat_replication") == [(0,)])

    def fail_over(self) -> None:
        """Kill the primary, promote the standby; the nodes change places."""
        self.primary.kill()
        self.nodes.reverse()
        with psycopg.connect(self.primary.url("postgres"), autocommit=True) as connection:
            assert connection.execute("select pg_promote()").fetchone() == (True,)


def ask(node: EmbeddedServer, query: str, *values: Any) -> list[Any]:
    with psycopg.connect(node.url("postgres"), autocommit=True) as connection:
        return connection.execute(query, values).fetchall()  # type: ignore[arg-type]


def wait(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not hold in time"
        time.sleep(0.02)
