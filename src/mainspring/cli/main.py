"""The command line's entry: all commands, and how an error ends one."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from mainspring import __version__
from mainspring.cli import (
    codes,
    entities,
    operations,
    params,
    parked,
    processes,
    queues,
    reactive,
    recurring,
    rights,
    show,
    tasks,
)
from mainspring.cli.actors import actors, changes, counters
from mainspring.cli.check import check
from mainspring.cli.doctor import doctor
from mainspring.cli.history import history, put_back
from mainspring.cli.metrics import metrics
from mainspring.cli.migrate import migrate
from mainspring.cli.process_orders import cancel_all, restart_all, templates
from mainspring.cli.status import status
from mainspring.cli.why import why
from mainspring.cli.worker import dev, worker

cli = typer.Typer(
    name="mainspring",
    help=f"A durable reactive engine on PostgreSQL.\n\n{codes.HELP}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


for command in (worker, dev, migrate, status, metrics, history, put_back, why, doctor, check):
    cli.command(cls=_Command)(command)
for order in (actors, counters, changes, restart_all, cancel_all, templates):
    processes.group.command(order.__name__.replace("_", "-"))(order)
for name, group in (
    ("tasks", tasks.group),
    ("entities", entities.group),
    ("parked", parked.group),
    ("processes", processes.group),
    ("queues", queues.group),
    ("operations", operations.group),
    ("recurring", recurring.group),
    ("params", params.group),
    ("reactive", reactive.group),
    ("rights", rights.group),
):
    cli.add_typer(group, name=name)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"mainspring {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """What stands before a command."""


def run() -> None:
    """Run a command: what a user may meet becomes one line and an exit code."""
    try:
        cli(prog_name="mainspring")
    except KeyboardInterrupt:
        sys.exit(codes.INTERRUPTED)
    except Exception as error:
        code = codes.code_of(error)
        if code is None:
            raise
        notes = (f"({note})" for note in getattr(error, "__notes__", ()))
        show.complain(" ".join([str(error) or type(error).__name__, *notes]))
        sys.exit(code)


if __name__ == "__main__":
    run()
