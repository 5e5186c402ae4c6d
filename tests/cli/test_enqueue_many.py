"""`mainspring tasks enqueue-many`: a call for each line of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

MODULE = """
from mainspring import Mainspring

app = Mainspring()


@app.task
def load(n: int, text: str = "") -> None: ...
"""


@pytest.fixture
def on(cli, database_url, tmp_path: Path, monkeypatch):
    (tmp_path / "many_app.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda *words: cli(*words, "--app", "many_app:app", "--url", database_url)


def test_each_line_is_a_call(on, tmp_path: Path) -> None:
    """T13: an error says the line, and what was enqueued; --skip goes on."""
    lines = [f'{{"n": {n}}}' for n in range(5)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, "no json"]))
    said = on("tasks", "enqueue-many", "load", "--from", "rows.jsonl", "--chunk", "2")
    assert said.code != 0
    assert "line 6 is no JSON object of arguments" in said.err
    assert "4 calls were enqueued before that" in said.err

    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    done = on("tasks", "enqueue-many", "load", "--from", "rows.jsonl", "--skip", "4", "--json")
    assert done.json() == {"task": "load", "enqueued": 1}
    assert on("tasks", "list", "--queue", "load", "--json").out.count('"key"') == 5


def test_a_file_that_is_not_there_and_a_task_that_nobody_declared(on) -> None:
    gone = on("tasks", "enqueue-many", "load", "--from", "gone.jsonl")
    assert "--from 'gone.jsonl' cannot be read: No such file or directory" in gone.err
    other = on("tasks", "enqueue-many", "lood", "--from", "-")
    assert "no task is named 'lood'; did you mean 'load'?" in other.err
