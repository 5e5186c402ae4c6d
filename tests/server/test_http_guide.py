"""The shell blocks of the guide to HTTP are run as they stand, by bash and curl, against a server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from served_process import Served

from warm import WorkerProcess

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "http.md"
APPLICATION = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[0]
BLOCKS = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[1:]

PUT = """
import asyncio
from shop import app, listing

async def put() -> None:
    async with app:
        await app.migrate()
        await listing.put("1", {"title": "a house"})

asyncio.run(put())
"""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_calls_of_the_guide_run_as_they_stand(served: Served) -> None:
    (served.folder / "shop.py").write_text(APPLICATION)
    subprocess.run(
        [sys.executable, "-c", PUT], cwd=served.folder, env=served.environment, check=True
    )
    served.start_http(place="shop:app")
    assert len(BLOCKS) == 4
    script = "set -e\n" + "\n".join(BLOCKS)
    script = script.replace("http://127.0.0.1:7410", f"http://{served.http_address}")

    with WorkerProcess("shop:app", served.url, path=served.folder):
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=served.folder,
            capture_output=True,
            text=True,
            timeout=110,
        )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    for told in ('"result":"noted: hello"', '"page 7 is out"', '"moved":true', '"version":2'):
        assert told in ran.stdout, ran.stdout
