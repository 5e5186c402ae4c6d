"""T8: the recipes of docs/guides/frameworks.md, under real servers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.testing import TestServer

PAGE = Path(__file__).parents[2] / "docs/guides/frameworks.md"
SERVERS = {
    "fastapi_shop": ("uvicorn", "asyncpg", "--port", "0"),
    "starlette_shop": ("uvicorn", "asyncpg", "--port", "0"),
    "litestar_shop": ("uvicorn", "asyncpg", "--port", "0"),
    "flask_shop": ("gunicorn", "psycopg", "--bind", "127.0.0.1:0", "--preload", "--workers", "2"),
}
_LISTENS = re.compile(r"(?:running on|Listening at:) (http://127\.0\.0\.1:\d+)")
BLOCKS = dict(re.findall(r"^```py\n# (\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@contextmanager
def serving(name: str, place: Path, url: str) -> Iterator[str]:
    """A server of the page, as its line says; its address."""
    program, driver, *options = SERVERS[name]
    with subprocess.Popen(
        [sys.executable, "-m", program, f"{name}:api", *options],
        cwd=place,
        env=os.environ
        | {
            "MAINSPRING_URL": url,
            "SQLALCHEMY_URL": url.replace("postgresql:", f"postgresql+{driver}:", 1),
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        try:
            for line in process.stdout:
                said += line
                if (found := _LISTENS.search(line)) is not None:
                    yield found[1]
                    break
            else:
                pytest.fail(f"{name} does not start: {said}")
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=60)[0]
    assert "hutting down" in rest, "it ends in order"


def ask(address: str, method: str = "GET") -> str:
    with urlopen(Request(address, method=method), timeout=60) as response:
        return (
            json.loads(response.read())
            if response.headers["content-type"].startswith("application/json")
            else response.read().decode()
        )


def test_each_framework_enqueues_in_its_transaction_and_reads_results(
    database_url: str, tmp_path: Path
) -> None:
    """An order that is refused by the database has no call; one that is committed has its result."""
    for name, code in BLOCKS.items():
        if "/" not in name:
            (tmp_path / name).write_text(code)
    with psycopg.connect(database_url, autocommit=True) as connection, ExitStack() as servers:
        connection.execute("create table orders (number int primary key)")
        at = {}
        for name in SERVERS:
            at[name] = servers.enter_context(serving(name, tmp_path, database_url))
        ids = {}
        for number, (name, address) in enumerate(at.items()):
            ids[name] = ask(f"{address}/orders/{number}", "POST")
            with pytest.raises(HTTPError, match="500"):
                ask(f"{address}/orders/{number}", "POST")
        # starlette_shop has a worker, which runs what the others have enqueued.
        for number, (name, address) in enumerate(at.items()):
            assert ask(f"{address}/results/{ids[name]}") == f"confirmed {number}"
        found = connection.execute("select count(*) from mainspring.history").fetchone()
        assert found == (len(SERVERS),)


ENVIRONMENT = """
import os
from alembic import context
from sqlalchemy import create_engine

url = os.environ["MAINSPRING_URL"].replace("postgresql:", "postgresql+psycopg:", 1)
with create_engine(url).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""


def test_a_migration_of_alembic_s_makes_the_schema(
    mainspring_server: TestServer, tmp_path: Path
) -> None:
    """T11: in its transaction, and nothing is left of one that fails; and takes it away."""
    (tmp_path / "versions").mkdir()
    name = "versions/0001_mainspring.py"
    (tmp_path / name).write_text(BLOCKS[name])
    (tmp_path / "env.py").write_text(ENVIRONMENT)
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s\n")
    with mainspring_server.database(migrated=False) as url:

        def alembic(*arguments: str) -> int:
            return subprocess.run(
                [sys.executable, "-m", "alembic", *arguments],
                cwd=tmp_path,
                env={**os.environ, "MAINSPRING_URL": url},
                capture_output=True,
            ).returncode

        def is_there() -> bool:
            with psycopg.connect(url) as connection:
                found = connection.execute("select to_regclass('mainspring.visit') is not null")
                return found.fetchone() == (True,)

        last = tmp_path / "versions/0002_fails.py"
        last.write_text(
            "revision, down_revision = '0002', '0001'\ndef upgrade(): raise LookupError\n"
        )
        assert (alembic("upgrade", "head"), is_there()) == (1, False)
        last.unlink()
        assert (alembic("upgrade", "head"), is_there()) == (0, True)
        assert Mainspring(url).migrate_sync() == [], "nothing is left to apply"
        assert (alembic("downgrade", "base"), is_there()) == (0, False)
