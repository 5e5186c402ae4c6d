"""The command line, called in this process or as a process of its own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import warm
from mainspring.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Take back what a command does to the logging of its process: its stream ends with the test."""
    root, ours = logging.getLogger(), logging.getLogger("mainspring")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path: Path, own_logging: None) -> Callable[..., Answer]:
    """Call the command line here, in an empty directory, with nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("MAINSPRING_URL", "MAINSPRING_APP", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["mainspring", *arguments])
        with pytest.raises(SystemExit) as end:
            main.run()
        out, err = capsys.readouterr()
        return Answer(int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def module(tmp_path: Path, monkeypatch) -> Callable[[str, str], None]:
    """Write a module into the directory that commands run in."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        sys.modules.pop(name, None)

    return write


@pytest.fixture
def spawn(tmp_path: Path, database_url: str) -> Callable[..., subprocess.Popen[str]]:
    """Start the command line as a process of its own; killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = warm.Popen(
            [sys.executable, "-m", "mainspring.cli.main", *arguments],
            cwd=tmp_path,
            env={**os.environ, "MAINSPRING_URL": database_url, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
