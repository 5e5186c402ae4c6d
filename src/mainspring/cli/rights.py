"""`mainspring rights`: the SQL that grants a role what it needs, and no more."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mainspring.cli.group import CommandGroup
from mainspring.db.schema import rights

group = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Print the SQL that grants a role its rights; nothing is changed.",
)
Role = Annotated[str, typer.Argument(help="The role, which is there already.")]


@group.command()
def enqueue(
    role: Role,
    queue: Annotated[
        list[str] | None,
        typer.Option(help="Close this queue to all but this role and others so named."),
    ] = None,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="It may insert and copy new visits by itself: faster.")
    ] = False,
    offers: Annotated[
        bool, typer.Option("--offers", help="It may offer entities and say that they changed.")
    ] = False,
) -> None:
    """A role that enqueues tasks and asks for their results."""
    sys.stdout.write(rights.enqueue(role, queues=queue or (), trusted=trusted, offers=offers))


@group.command()
def params(
    role: Role,
    rewinds: Annotated[
        bool, typer.Option("--rewinds", help="It may move params back, too.")
    ] = False,
) -> None:
    """A role that sets params."""
    sys.stdout.write(rights.params(role, rewinds=rewinds))


@group.command()
def worker(role: Role) -> None:
    """A role that runs workers."""
    sys.stdout.write(rights.worker(role))


@group.command()
def operator(role: Role) -> None:
    """A role that looks at everything, pauses, limits, restarts and cancels."""
    sys.stdout.write(rights.operator(role))


@group.command()
def owner(
    role: Annotated[str, typer.Argument(help="The role that will own the schema.")],
    database: Annotated[str, typer.Option(help="The database it is for.")],
    migrator: Annotated[str, typer.Option(help="The login that migrates.")],
) -> None:
    """The owner of the schema and the login that migrates: apply it before the first migrate."""
    sys.stdout.write(rights.owner(role, database=database, migrator=migrator))
