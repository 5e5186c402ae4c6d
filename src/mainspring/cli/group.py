"""A group of commands, and how its help names them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

SENTENCE = 400  # characters that no first sentence of a command reaches


class CommandGroup(TyperGroup):
    """What each command is for is told whole, in as many lines as that takes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.told(ctx))

    def told(self, ctx: typer.Context) -> list[tuple[str, str]]:
        """The commands' names, and what they are for."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, one.get_short_help_str(SENTENCE)) for name, one in found if one is not None]
