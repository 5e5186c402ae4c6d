"""The shell session of the processes' guide, command by command, on the guide's own program."""

from __future__ import annotations

import asyncio
import importlib
import re
import shlex
from pathlib import Path

from mainspring.testing import run_until_idle

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "processes.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def session() -> list[tuple[str, list[str]]]:
    """Each command with what the page shows of its answer."""
    [text] = blocks("console")
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ mainspring "):
            found.append((line.removeprefix("$ mainspring "), []))
        else:
            found[-1][1].append(line)
    return found


def test_the_commands_of_the_guide_answer_as_it_shows(cli, module, monkeypatch, database_url):
    """P12, P15: start, why, signal, search, show, parked, restart, operations, cancel, check."""
    module("shop", "\n".join(blocks("python")))
    monkeypatch.setenv("MAINSPRING_URL", database_url)
    monkeypatch.setenv("MAINSPRING_APP", "shop:app")

    async def work() -> None:
        async with importlib.import_module("shop").app as app:
            await run_until_idle(app)

    for command, shown in session():
        if command == "worker --drain":
            asyncio.run(work())
            continue
        answer = cli(*shlex.split(command))
        assert answer.code == 0, (command, answer.err)
        for line in shown:
            fits = ".*".join(re.escape(part) for part in line.split("..."))
            assert re.search(fits, answer.out), (command, line)
