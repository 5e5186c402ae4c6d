"""T8, T9: a backend for Django's tasks, in a real project with its ORM, its test runner and manage.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import warm
from mainspring.db.schema.migrate import migrations
from mainspring.testing import TestServer

SITE = Path(__file__).parent / "site"
SCRIPTS = Path(__file__).parent / "scripts"


def python(
    url: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    given = {"SHOP_URL": url, "COLUMNS": "100", "PYTHONPATH": str(SITE)}
    return warm.run(
        [sys.executable, *map(str, arguments)],
        cwd=environment.pop("cwd", str(SITE)),
        env={**os.environ, **given, "DJANGO_SETTINGS_MODULE": "settings", **environment},
        timeout=100,
    )


def manage(url: str, *arguments: str, **environment: str) -> str:
    """What manage.py prints."""
    ran = python(url, SITE / "manage.py", *arguments, **environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def shop(mainspring_server: TestServer) -> Iterator[str]:
    """The database of the project, after `migrate`."""
    with mainspring_server.database(migrated=False) as url:
        assert "Applied migrations of Mainspring 1 to" in manage(url, "migrate")
        assert "Mainspring" not in manage(url, "migrate"), "there is nothing left to apply"
        yield url


def test_the_promises_of_django_s_interface_are_kept(mainspring_server: TestServer) -> None:
    """Its own test runner makes a database by `migrate`, schema included, and drops it."""
    with mainspring_server.database(migrated=False) as url:
        ran = python(url, "manage.py", "test", "--noinput")
    assert ran.returncode == 0, ran.stderr
    declared = re.findall(r"^    def test_", (SITE / "shop/tests.py").read_text(), re.MULTILINE)
    assert f"Ran {len(declared)} tests" in ran.stderr


def test_the_command_line_has_the_project_s_application(shop: str, tmp_path: Path) -> None:
    """Worker processes, too, from wherever manage.py is called."""
    code = "from shop.tasks import *; print(mail.enqueue('ann').id, own.enqueue_sync(1).id)"
    mail, own = python(shop, "-c", f"import django; django.setup(); {code}").stdout.split()
    bare = {"cwd": str(tmp_path), "PYTHONPATH": ""}

    arguments = ("mainspring", "worker", "--processes", "2", "--drain", "--settings=settings")
    manage(shop, *arguments, **bare)

    told = manage(shop, "mainspring", "history", "--queue", "django.mails", **bare)
    assert f"{mail[:8]}" in told
    assert "done" in told
    assert f"{own[:8]}" in manage(shop, "mainspring", "tasks", "list", "--queue", "own", **bare)
    assert "mainspring_django.worker" not in manage(shop, "mainspring", "check", **bare)


def test_broken_connections_are_replaced_before_a_task(shop: str) -> None:
    """With CONN_MAX_AGE a thread's connection is kept, unless the server has ended it meanwhile."""
    ran = python(shop, SCRIPTS / "kept_connections.py", SHOP_MAX_AGE="600")
    assert ran.stdout == "kept, then another at the first attempt\n", ran.stderr


def test_what_cannot_be_is_said_with_its_remedy(shop: str) -> None:
    ran = python(shop, SCRIPTS / "mistakes.py")
    assert ran.stdout.splitlines() == [
        "E002: Mainspring needs PostgreSQL, and the database 'lite' is another "
        "(name a database by MAINSPRING = {'DATABASE': alias})",
        "E001: MAINSPRING['DATABASE'] is 'none', and the databases are 'default', 'lite'",
        "E001: the setting MAINSPRING has no 'URL'; there are DATABASE, POOL, MIGRATE",
        "TASKS['default']['OPTIONS'] has no 'retries'; there are pool, retry, timeout, grace, "
        "hold_after, crash_limit, concurrency, rate and queues",
        "TASKS['default']: timeout must be 0.000001 to 10000000 seconds (a number, or a timedelta), got -1",
        "Django's database 'lite' is sqlite, and Mainspring needs PostgreSQL: name another by "
        "MAINSPRING = {'DATABASE': alias}",
        "task 'len': executor=\"process\" is not for the application of a Django project yet: leave it "
        "out, and the function runs in a thread",
    ], ran.stderr


def test_the_guide_is_a_project_that_works(mainspring_server: TestServer, tmp_path: Path) -> None:
    text = (SITE.parents[2] / "docs/guides/django.md").read_text()
    for name, code in re.findall(r"^```py\n# (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    shutil.copy(SITE / "manage.py", tmp_path)
    (tmp_path / "shop/__init__.py").touch()
    with mainspring_server.database(migrated=False) as url:
        given = conninfo_to_dict(url)
        names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT", "user": "PGUSER"}
        place = {there: str(given.get(here, "")) for here, there in names.items()}
        ran = python(
            url, SCRIPTS / "guide.py", cwd=str(tmp_path), PYTHONPATH=str(tmp_path), **place
        )
    assert ran.returncode == 0, ran.stderr
    assert (
        ran.stdout.splitlines()[-1]
        == "rolled back: nothing; committed: mailed True, result SUCCESSFUL"
    )


def test_a_migration_of_one_s_own_makes_the_schema(
    mainspring_server: TestServer, tmp_path: Path
) -> None:
    """T11: that of the guide, with MIGRATE off."""
    site = shutil.copytree(SITE, tmp_path / "site")
    text = (SITE.parents[2] / "docs/guides/frameworks.md").read_text()
    name = "migrations/0002_mainspring.py"
    (code,) = re.findall(rf"^```py\n# {name}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (site / "shop" / name).write_text(code)
    with (site / "settings.py").open("a") as settings:
        settings.write('MAINSPRING = {"MIGRATE": False}\n')
    place = {"PYTHONPATH": str(site), "cwd": str(site)}
    with mainspring_server.database(migrated=False) as url:
        made = python(url, "manage.py", "migrate", "shop", "0001", **place)
        assert (made.returncode, "Mainspring" in made.stdout) == (0, False), made.stderr
        made = python(url, "manage.py", "migrate", **place)
        assert made.returncode == 0, made.stderr
        with psycopg.connect(url) as connection:
            found = connection.execute("select max(number) from mainspring.migration").fetchone()
    assert found == (max(migration.number for migration in migrations()),)
