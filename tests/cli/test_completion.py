"""Completion: the scripts complete in the shells themselves, and nothing of an application is imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.cli.commands import COMMANDS
from mainspring.cli.completion import Shell, script, words

BASH = """source {script}
COMP_WORDS=({typed} "{last}"); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1))
_mainspring; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# Its own functions for the screen print here what they would offer.
ZSH = """compdef() {{ : }}
_describe() {{ print -l -- "${{(P@)@[-1]}}" }}
source {script}
words=({typed} "{last}"); CURRENT=${{#words}}
_mainspring
"""
FISH = """source {script}
complete -C "{typed} {last}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "zsh", "fish"):
        (place / shell).write_text(script(Shell(shell)))
    return place


def offered(shell: str, scripts: Path, typed: str, last: str) -> list[str]:
    """What a shell offers after what was typed."""
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    text = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    told = text.format(script=scripts / shell, typed=typed, last=last)
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    ran = subprocess.run([program, plain, "-c", told], capture_output=True, text=True)
    assert ran.stderr == ""
    parts = {"bash": "\n", "zsh": ":", "fish": "\t"}[shell]
    found = [line.partition(parts)[0] for line in ran.stdout.splitlines()]
    return [one for one in found if one.startswith(last)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
class TestShell:
    def test_commands_are_offered(self, shell: str, scripts: Path) -> None:
        assert sorted(offered(shell, scripts, "mainspring", "st")) == ["status"]
        assert set(COMMANDS) <= set(offered(shell, scripts, "mainspring", ""))

    def test_commands_of_a_group_are_offered(self, shell: str, scripts: Path) -> None:
        assert sorted(offered(shell, scripts, "mainspring tasks", "c")) == ["cancel"]
        assert "list" in offered(shell, scripts, "mainspring queues", "")

    def test_options_are_offered_after_options(self, shell: str, scripts: Path) -> None:
        typed = "mainspring tasks list --limit 7"

        assert sorted(offered(shell, scripts, typed, "--st")) == ["--state"]


def test_each_command_has_its_words() -> None:
    found = words()

    assert [word.text for word in found[""]] == list(COMMANDS)
    assert "sources rejects list" in found
    assert {"--url", "--json", "--help"} <= {word.text for word in found["status"]}


def test_an_application_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise SystemExit('imported')\n")

    ran = subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", "completion", "bash"],
        cwd=tmp_path,
        env={"MAINSPRING_APP": "shop:app", "PATH": ""},
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == script(Shell.bash) + "\n"
