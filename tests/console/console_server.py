"""The console as the command line serves it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import psycopg

import warm


class ConsoleServer:
    """`mainspring serve --http`: where it is, its link, its token."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def __enter__(self) -> Self:
        self._log = (self._folder / "server.log").open("ab")
        self._process = warm.Popen(
            [sys.executable, "-m", "mainspring.cli.main", "serve", "--http", "127.0.0.1:0"],
            cwd=self._folder,
            env={**os.environ, "MAINSPRING_URL": self._url},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("serving HTTP at "), (self._folder / "server.log").read_text()
        self.link = self._process.stdout.readline().split()[1]
        self.root = f"http://{said.split()[3]}/console"
        self.token = (self._folder / ".mainspring" / "token").read_text().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        assert self._process.wait(20) == 0, (self._folder / "server.log").read_text()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def cut(self) -> None:
        """End every connection of the database, the server's among them, and wait until they are gone."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 20000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
