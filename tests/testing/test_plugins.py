"""The fixtures in projects of their own: under pytest-asyncio, anyio, pytest-django and pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from mainspring.testing import TestServer

ASYNCIO, ANYIO = "asyncio", "anyio"
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
SHOP = """
from mainspring import Mainspring

app = Mainspring("postgresql:///production")
app.entities("customer", table="customer_that_no_test_made")

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"
"""
CONFTEST = """
import pytest
import shop

@pytest.fixture(autouse=True)
def app(mainspring_use):
    return mainspring_use(shop.app)
"""
TESTS = """
from shop import app, greet
from mainspring.testing import assert_enqueued, run_until_idle

def test_plain_code():
    greet.enqueue_sync("ann")
    assert_enqueued(app, greet, {"name": "ann"}, count=1)
"""
ASYNC = """
import pytest
from shop import app, greet
from mainspring.testing import assert_enqueued, run_until_idle

@pytest.mark.parametrize("name", ["ann", "bob", "eve"])
MARK
async def test_a_call(name):
    handle = await greet.options(delay=3600).enqueue(name)
    assert_enqueued(app, greet, {"name": name}, delay=3600, count=1)
    await run_until_idle(app, skip_time=True)
    assert await handle.result(1) == f"hello {name}"

MARK
async def test_an_application_of_its_own(mainspring_app, mainspring_clock):
    double = mainspring_app.task(_double)
    handle = await double.options(delay=60).enqueue(21)
    await mainspring_clock.advance(60)
    await run_until_idle(mainspring_app)
    assert await handle.result(1) == 42

def _double(n: int) -> int:
    return 2 * n
"""


@pytest.fixture
def project(tmp_path: Path, mainspring_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project beside nothing of ours; its tests use the server of this session."""
    monkeypatch.setenv("MAINSPRING_TEST_DSN", mainspring_server.url("postgres"))
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_plain.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *arguments: str, use: tuple[str, ...], **environment: str) -> str:
    """Its tests pass, without a warning."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MAINSPRING_URL"))}
    plugins = [word for name in (*use, "mainspring") for word in ("-p", name)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, *arguments],
        cwd=project,
        env={
            **own,
            "PYTHONPATH": str(project),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_pytest_asyncio_in_both_modes_and_xdist(project: Path) -> None:
    (project / "test_async.py").write_text(ASYNC.replace("MARK", "@pytest.mark.asyncio"))

    assert "5 passed" in run(project, "--asyncio-mode=auto", *SCOPE, use=(ASYNCIO,))
    assert "5 passed" in run(
        project, "--asyncio-mode=strict", *SCOPE, "-n", "2", use=(ASYNCIO, "xdist")
    )


def test_anyio_alone_and_beside_pytest_asyncio(project: Path) -> None:
    (project / "test_async.py").write_text(ASYNC.replace("MARK", "@pytest.mark.anyio"))
    (project / "conftest.py").write_text(
        CONFTEST + "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    )

    assert "5 passed" in run(project, use=(ANYIO,))
    assert "5 passed" in run(project, "--asyncio-mode=strict", *SCOPE, use=(ASYNCIO, ANYIO))


@pytest.mark.skipif(find_spec("pytest_django") is None, reason="pytest-django is not installed")
def test_pytest_django(project: Path, mainspring_url: str) -> None:
    """Django's own test database is one, ours another; `on=` of Django's is told apart."""
    (project / "settings.py").write_text(
        textwrap.dedent(
            """
            import os
            from urllib.parse import parse_qs, urlsplit
            parts = urlsplit(os.environ["SHOP_DATABASE"])
            query = parse_qs(parts.query)
            SECRET_KEY = "x"
            INSTALLED_APPS = ["django.contrib.contenttypes"]
            DATABASES = {"default": {
                "ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": "postgres",
                "HOST": query["host"][0], "PORT": query["port"][0],
                "TEST": {"NAME": parts.path[1:] + "_django"},
            }}
            USE_TZ = True
            """
        )
    )
    (project / "test_django.py").write_text(
        textwrap.dedent(
            """
            import pytest
            from django.contrib.contenttypes.models import ContentType
            from shop import app, greet
            from mainspring.testing import assert_enqueued

            @pytest.mark.django_db
            def test_rows_and_calls():
                assert ContentType.objects.count() >= 0
                greet.enqueue_sync("ann")
                assert_enqueued(app, greet, {"name": "ann"}, count=1)
            """
        )
    )

    assert "2 passed" in run(
        project, "--ds=settings", use=("django",), SHOP_DATABASE=mainspring_url
    )
