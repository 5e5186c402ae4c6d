"""`mainspring tokens`: who may call the server, and what he may do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from mainspring.cli import show
from mainspring.cli.group import CommandGroup
from mainspring.cli.options import App, Json, Url, source
from mainspring.cli.target import ask_host
from mainspring.errors import InvalidSetting
from mainspring.host import DatabaseHost
from mainspring.processes.remote.seal import rotate_secret_steps
from mainspring.server.access import tokens
from mainspring.server.access.tokens import LONGEST_LIFETIME, MadeToken, TokenRow

group = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tokens of those who call the server: made, listed, revoked.",
)


@group.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is; stands beside what he changes.")],
    scope: Annotated[
        list[str], typer.Option(help="What he may do: enqueue:mail.*, task.read, ..., or admin.")
    ],
    days: Annotated[float, typer.Option(help="For how long it is good.")] = 90.0,
    certificate: Annotated[
        str | None,
        typer.Option(help="No token: who shows a client certificate with this name (SAN)."),
    ] = None,
    url: Url = None,
    app: App = None,
    json: Json = False,
) -> None:
    """Make a token; it is shown once.

    Nobody can show it again. Give --scope once for each thing that he may do.
    """

    lifetime = _lifetime(days)

    async def make(host: DatabaseHost) -> MadeToken:
        pool = await host.pool()
        async with pool.connection(transaction=True) as connection:
            return await tokens.create_token(
                connection,
                name,
                scope,
                lifetime=lifetime,
                san=certificate,
                by=source(),
            )

    made = ask_host(make, url, app)
    if json:
        show.as_json({**_told(made.row), "token": made.text})
    elif made.text is not None:
        show.say(made.text)
    else:
        show.say(f"certificates with the name {certificate} may {', '.join(made.row.scopes)}")


@group.command("list")
def list_them(url: Url = None, app: App = None, json: Json = False) -> None:
    """List tokens, the newest first, without their secrets."""

    async def read(host: DatabaseHost) -> list[TokenRow]:
        pool = await host.pool()
        async with pool.connection() as connection:
            return await tokens.list_tokens(connection)

    found = ask_host(read, url, app)
    if json:
        show.as_json([_told(row) for row in found])
        return
    has_certificates = any(row.san is not None for row in found)
    columns = ("id", "name", "state", "expires", "scopes", "certificate")
    show.print_table(
        columns if has_certificates else columns[:-1],
        [_cells(row)[: None if has_certificates else -1] for row in found],
        empty="there are no tokens; mainspring tokens create makes one",
    )


@group.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The token's id: msp_<id>_...")],
    url: Url = None,
    app: App = None,
) -> None:
    """Make a token worthless, within 5 seconds at every server."""

    async def end(host: DatabaseHost) -> TokenRow:
        pool = await host.pool()
        async with pool.connection(transaction=True) as connection:
            return await tokens.revoke_token(connection, id)

    row = ask_host(end, url, app)
    show.say(f"the token {row.id} of {row.name} is revoked")


@group.command()
def rotate_secret(url: Url = None, app: App = None) -> None:
    """Seal tickets of actors under a new secret.

    Tickets are what actors elsewhere get with a task. Those under the last secret stay good.
    """

    async def rotate(host: DatabaseHost) -> int:
        pool = await host.pool()
        async with pool.connection(transaction=True) as connection:
            return await connection.follow(rotate_secret_steps())

    number = ask_host(rotate, url, app)
    show.say(
        f"secret {number} seals from now on, {number - 1} still opens; servers follow within 5 seconds. "
        "Rotate again only when no task of before is at work any more"
    )


def _lifetime(days: float) -> timedelta:
    if not 0 < days <= LONGEST_LIFETIME.days:  # no number at all is refused as well
        raise InvalidSetting(
            f"--days must be above 0 and at most {LONGEST_LIFETIME.days}, got {days:g}"
        )
    return timedelta(days=days)


def _cells(row: TokenRow) -> tuple[object, ...]:
    return (row.id, row.name, _state(row), row.expires_at, ", ".join(row.scopes), row.san)


def _state(row: TokenRow) -> str:
    return "good" if row.is_good else "revoked" if row.revoked_at is not None else "expired"


def _told(row: TokenRow) -> dict[str, object]:
    told = {k: v for k, v in row._asdict().items() if k not in ("hash", "is_good")}
    return {**told, "state": _state(row)}
