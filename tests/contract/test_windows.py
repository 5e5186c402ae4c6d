"""Mainspring can be imported, and used with a server elsewhere, where Windows is the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
USE = """
import asyncio, pwd, socket, sys
unix = socket.AF_UNIX
from windows_import import hide
hide()
socket.AF_UNIX, sys.modules["pwd"] = unix, pwd  # the tests reach their server by its socket

from mainspring import Mainspring

app = Mainspring()

@app.task
def double(n: int) -> int:
    return 2 * n

async def main() -> None:
    async with app, app.worker():
        handle = await asyncio.to_thread(double.enqueue_sync, 4)
        print(await handle.result(timeout=60))
        print(await asyncio.to_thread(handle.result_sync, 60))

if len(sys.argv) == 1:
    asyncio.run(main())
else:
    sys.argv = ["mainspring", *sys.argv[1:]]
    from mainspring_cli import run
    run()
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_every_module_is_imported_without_what_windows_lacks() -> None:
    ran = python(str(HERE / "windows_import.py"))
    assert ran.returncode == 0, ran.stderr
    *failed, count = ran.stdout.splitlines()
    assert failed == []
    assert int(count.split()[0]) > 500


def test_a_server_elsewhere_is_used_from_there(database_url: str) -> None:
    ran = python("-c", USE, MAINSPRING_URL=database_url)
    assert (ran.stdout, ran.stderr) == ("8\n8\n", "")
    asked = python("-c", USE, "status", "--url", database_url, USERNAME="somebody")
    assert (asked.returncode, "double" in asked.stdout) == (0, True), asked.stderr


def test_the_private_server_is_said_to_be_missing(tmp_path: Path) -> None:
    code = USE.replace("app = Mainspring()", f"app = Mainspring(directory={str(tmp_path)!r})")
    ran = python("-c", code)
    assert ran.stderr.splitlines()[-1] == (
        "mainspring.errors.EmbeddedServerError: the private PostgreSQL is not there for Windows: name a "
        "server of yours by MAINSPRING_URL, or by Mainspring(url)"
    )
