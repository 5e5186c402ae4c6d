"""Processes that are forked are as processes that are started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import warm

TELL = "import os, sys; print(os.getpid(), sys.argv, os.environ['NAME'], os.getcwd()); sys.exit(5)"
FILES = {"stdout": subprocess.PIPE, "text": True}


@pytest.mark.parametrize("begin", [subprocess.Popen, warm.Popen])
def test_a_process_has_words_surroundings_and_an_end_of_its_own(
    tmp_path: Path, begin: type[subprocess.Popen[str]]
) -> None:
    there = {**os.environ, "NAME": "its own"}
    with begin([sys.executable, "-c", TELL, "a b"], cwd=tmp_path, env=there, **FILES) as process:
        said, _ = process.communicate(timeout=60)
    assert said == f"{process.pid} ['-c', 'a b'] its own {tmp_path}\n"
    assert process.returncode == 5


@pytest.mark.parametrize("begin", [subprocess.Popen, warm.Popen])
def test_a_process_is_killed(begin: type[subprocess.Popen[str]]) -> None:
    waits = "print('waits', flush=True); import signal; signal.pause()"
    with begin([sys.executable, "-c", waits], **FILES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -signal.SIGKILL


def test_a_file_and_a_module_see_what_they_see_when_they_are_started(tmp_path: Path) -> None:
    program = "import beside, sys; print(__name__, beside.__name__, sys.argv, __file__)"
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "beside.py").touch()
    for words in ([str(tmp_path / "program.py"), "x"], ["-m", "program", "x"]):
        command = [sys.executable, *words]
        forked = warm.run(command, cwd=tmp_path)
        started = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


def test_a_step_to_die_at_is_read_anew() -> None:
    program = "from mainspring.crash_points import passed; passed('run.started'); print('lives')"
    there = {**os.environ, "MAINSPRING_DIE_AT": "run.started"}
    assert warm.run([sys.executable, "-c", program], env=there).returncode == -signal.SIGKILL
    assert warm.run([sys.executable, "-c", program]).stdout == "lives\n"


def test_a_mainspring_of_another_place_is_the_one_that_is_imported(tmp_path: Path) -> None:
    """That of the release before, say."""
    (tmp_path / "mainspring").mkdir()
    (tmp_path / "mainspring" / "__init__.py").write_text("print('the other one')")
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert (
        warm.run([sys.executable, "-c", "import mainspring"], env=there).stdout == "the other one\n"
    )
