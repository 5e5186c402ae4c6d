"""The commands by name: what they are for, and where; each is imported when it is given.

`mainspring --help` and a command that answers in a moment shall not wait for all others.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand

from mainspring.cli.group import CommandGroup
from mainspring_cli import importing


class CommandPlace(NamedTuple):
    """Where a command is, and the line that says what it is for."""

    module: str
    name: str  # of its function, or of its group of commands
    help: str


COMMANDS = {
    "worker": CommandPlace("worker", "worker", "Run workers until a signal stops them."),
    "dev": CommandPlace(
        "worker", "dev", "Run a worker and start it anew when a source file changes."
    ),
    "migrate": CommandPlace("migrate", "migrate", "Create or upgrade the schema."),
    "status": CommandPlace(
        "status", "status", "Show workers, queues, lag and throughput of the last minute."
    ),
    "metrics": CommandPlace(
        "metrics", "metrics", "Print the numbers of status as OpenMetrics text."
    ),
    "history": CommandPlace("history", "history", "Search past runs, newest first."),
    "put-back": CommandPlace("history", "put_back", "Put past tasks back to run again."),
    "why": CommandPlace("why", "why", "Say why something has not run, and what to do."),
    "doctor": CommandPlace("doctor", "doctor", "Examine the server, the schema and the tables."),
    "check": CommandPlace("check", "check", "Check an application before it runs."),
    "tasks": CommandPlace("tasks", "group", "Tasks that wait, run or are scheduled."),
    "entities": CommandPlace("entities", "group", "Entities and their stages."),
    "parked": CommandPlace("parked", "group", "Visits that failed for good and wait."),
    "processes": CommandPlace("process_group", "group", "Processes: graphs of tasks."),
    "queues": CommandPlace("queues", "group", "Queues: their load, pause and resume, limits."),
    "operations": CommandPlace(
        "operations", "group", "Bulk jobs: their progress; pause, resume, cancel."
    ),
    "recurring": CommandPlace("recurring", "group", "Schedules: what comes again by a cron line."),
    "params": CommandPlace("params", "group", "Params of the data: what is loaded up to where."),
    "reactive": CommandPlace(
        "reactive", "group", "Tasks that run when the state of the data says so."
    ),
    "sources": CommandPlace(
        "sources", "group", "Sources: what is read of brokers; pause, resume, seek."
    ),
    "serve": CommandPlace(
        "serve", "serve", "Serve all of it over gRPC and HTTP to other languages."
    ),
    "tokens": CommandPlace(
        "tokens", "group", "Tokens of those who call the server: made, listed, revoked."
    ),
    "audit": CommandPlace("audit", "audit", "What operators ordered, newest first."),
    "completion": CommandPlace(
        "completion",
        "completion",
        "Print the script that completes commands and options in a shell.",
    ),
    "rights": CommandPlace("rights", "group", "Print the SQL that grants a role its rights."),
}


class Commands(CommandGroup):
    """All commands, none of them imported before it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(COMMANDS)  # their names are what typos are compared with

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            self.commands[cmd_name] = load(cmd_name)
        return self.commands.get(cmd_name)

    def told(self, ctx: typer.Context) -> list[tuple[str, str]]:
        return [(name, place.help) for name, place in COMMANDS.items()]


class _Command(TyperCommand):
    """A command that knows what `mainspring status shop:app` means: worker and dev take it so."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        extra = [arg for arg in args if re.fullmatch(r"[\w.]+:\w+", arg)]
        takes_app = any("--app" in option.opts for option in self.params)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's own, which typer has in one place or another
            message = getattr(error, "message", "")
            if extra and takes_app and "unexpected extra argument" in message:
                hint = f"{message}; the application is given here as --app {extra[0]}"
                vars(error)["message"] = hint
            raise


def load(name: str) -> Any:
    """Import a command, or a group of them."""
    place = COMMANDS[name]
    with importing():
        found = getattr(import_module(f"mainspring.cli.{place.module}"), place.name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=_Command)(found)
        found = alone
    found.rich_markup_mode = None
    found._add_completion = False
    command = typer.main.get_command(found)
    command.name = name
    return command
