"""Scenes on the session's server, and on one of the module's own that a test may stop or kill."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from scene import Scene

from mainspring import Mainspring
from mainspring.embedded.server import EmbeddedServer


@pytest.fixture
def scene(mainspring_url: str, tmp_path: Path) -> Iterator[Scene]:
    """A scene whose faults hit the workers only."""
    with Scene(mainspring_url, tmp_path) as scene:
        yield scene


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """A server of this module's own, with a migrated template."""
    chosen = os.environ.get("MAINSPRING_TEST_BIN")
    directory = Path(tempfile.mkdtemp(prefix="mainspring-crash-", dir="/tmp"))
    server = EmbeddedServer(
        directory / "m",
        bin_dir=Path(chosen) if chosen else None,
        settings={"fsync": "off", "shared_buffers": "32MB"},
    )
    server.start()
    server.create_database("template")
    app = Mainspring(server.url("template"))
    app.migrate_sync()
    app.close_sync()
    yield server
    server.stop(fast_seconds=2)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def own_scene(
    own_server: EmbeddedServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """A scene on the module's own server."""
    own_server.start()
    name = f"scene_{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        create = sql.SQL("create database {} template template").format(sql.Identifier(name))
        connection.execute(create)
    with Scene(own_server.url(name), tmp_path) as scene:
        yield scene
