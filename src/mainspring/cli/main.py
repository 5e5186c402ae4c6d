"""The command line's entry, and how an error ends a command; `commands.py` has all of them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mainspring.cli import codes
from mainspring.cli.commands import Commands

cli = typer.Typer(
    name="mainspring",
    cls=Commands,
    help=f"A durable reactive engine on PostgreSQL.\n\n{codes.HELP}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from mainspring.version import __version__

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
        from mainspring.cli import show

        notes = (f"({note})" for note in getattr(error, "__notes__", ()))
        show.complain(" ".join([str(error) or type(error).__name__, *notes]))
        sys.exit(code)


if __name__ == "__main__":
    run()
