"""Every Python block of the README and the docs runs, page by page, as a reader would paste it."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from mainspring import Mainspring
from mainspring.cli.main import cli
from mainspring.testing import Clock

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


PAGES_WITH_CODE = [page for page in PAGES if blocks(page)]


async def call_with_fixtures(function: Any, parameters: set[str], url: str) -> None:
    """Call a page's function, with the shipped fixtures that it names."""
    async with Mainspring(url) as app:
        made = {"mainspring_app": app, "mainspring_clock": Clock(url)}
        await function(**{name: made[name] for name in parameters})


def test_there_is_code_to_run() -> None:
    assert ROOT / "README.md" in PAGES_WITH_CODE


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_of_a_page_runs(
    page: Path,
    mainspring_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The blocks of a page are one program; its coroutine functions and its tests are run."""
    monkeypatch.setenv("MAINSPRING_URL", mainspring_url)
    module = ModuleType("page")
    monkeypatch.setitem(__import__("sys").modules, "page", module)

    for number, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name} block {number}", "exec"), module.__dict__)
    ran = []
    for name, value in list(vars(module).items()):
        if inspect.iscoroutinefunction(value):
            parameters = set(inspect.signature(value).parameters)
            if not parameters or name.startswith("test_"):
                ran.append(name)
                asyncio.run(call_with_fixtures(value, parameters, mainspring_url))
    assert ran, "a page with code has nothing that runs"
    app = getattr(module, "app", None)
    if app is not None:
        app.close_sync()

    if page.name == "README.md":
        assert ran == ["main"]
        assert "hello world" in capsys.readouterr().out


def commands(page: Path) -> list[str]:
    """The lines of its shell blocks that call Mainspring."""
    lines = "\n".join(_SHELL.findall(page.read_text())).splitlines()
    return [line for line in lines if line.startswith("mainspring ")]


@pytest.mark.parametrize(
    "line", [line for page in PAGES for line in commands(page)], ids=lambda line: line.split("#")[0]
)
def test_a_command_on_a_page_can_be_given_so(line: str) -> None:
    """It, its arguments and its options are there; it is not run."""
    command: Any = get_command(cli)
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "&"]
    while hasattr(command, "commands"):
        command = command.get_command(None, words.pop(0))

    command.make_context(command.name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())

    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]

    assert missing == []
