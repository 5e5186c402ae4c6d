"""`mainspring worker --serve`: workers that are a server too, for small installations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import warm

APP = """
from mainspring import Mainspring

app = Mainspring()


@app.task(name="mail.note")
async def note(text: str) -> str:
    return f"noted: {text}"
"""


def command(url: str, folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "mainspring.cli.main", "worker", "notes:app", *options]


def environment(url: str, folder: Path) -> dict[str, str]:
    return {**os.environ, "MAINSPRING_URL": url, "PYTHONPATH": str(folder)}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_serves_what_it_runs(database_url: str, tmp_path: Path, processes: str) -> None:
    (tmp_path / "notes.py").write_text(APP)
    options = ("--serve", "--http", "127.0.0.1:0", "--processes", processes)
    with (tmp_path / "log").open("wb") as log:
        worker = warm.Popen(
            command(database_url, tmp_path, *options),
            cwd=tmp_path,
            env=environment(database_url, tmp_path),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert worker.stdout is not None
    try:
        address = worker.stdout.readline().split()[3]
        token = tmp_path / ".mainspring" / "token"

        def ask(path: str, body: object = None) -> dict[str, object]:
            """The port is kept from the first line on; it is listened on a little later."""
            while True:
                try:
                    request = urllib.request.Request(
                        f"http://{address}{path}",
                        data=None if body is None else json.dumps(body).encode(),
                        headers={
                            "Authorization": f"Bearer {token.read_text().strip()}",
                            "Content-Type": "application/json",
                        },
                    )
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        return dict(json.load(answer))
                except (ConnectionError, FileNotFoundError):
                    continue
                except urllib.error.HTTPError as error:
                    raise AssertionError(error.read().decode()) from None
                except urllib.error.URLError:
                    continue

        made = ask("/v1/tasks/mail.note/calls", {"args": {"text": "hello"}})
        done = ask(f"{made['url']}?wait=50")
        assert (done["state"], done["result"]) == ("done", "noted: hello")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()


def test_a_worker_does_not_serve_other_machines(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(APP)
    told = subprocess.run(
        command(database_url, tmp_path, "--http", "0.0.0.0:0"),
        cwd=tmp_path,
        env=environment(database_url, tmp_path),
        capture_output=True,
        text=True,
    )
    assert (told.returncode, "can be reached from other machines" in told.stderr) == (2, True)
