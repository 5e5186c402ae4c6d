"""`mainspring tokens`: who may call the server, and what he may do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from mainspring.cli import show
from mainspring.cli.options import App, Json, Url, source
from mainspring.cli.target import ask_host
from mainspring.host import DatabaseHost
from mainspring.server.access import tokens
from mainspring.server.access.tokens import MadeToken, TokenRow

group = typer.Typer(
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
    """Make a token; it is shown once, and nobody can show it again."""

    async def make(host: DatabaseHost) -> MadeToken:
        pool = await host.pool()
        async with pool.connection(transaction=True) as connection:
            return await tokens.create_token(
                connection,
                name,
                scope,
                lifetime=timedelta(days=days),
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
    """List tokens, the newest first; their secrets are kept nowhere."""

    async def read(host: DatabaseHost) -> list[TokenRow]:
        pool = await host.pool()
        async with pool.connection() as connection:
            return await tokens.list_tokens(connection)

    found = ask_host(read, url, app)
    if json:
        show.as_json([_told(row) for row in found])
        return
    show.print_table(
        ("id", "name", "state", "scopes", "expires", "certificate"),
        [(r.id, r.name, _state(r), ", ".join(r.scopes), r.expires_at, r.san or "-") for r in found],
        empty="there are no tokens; mainspring tokens create makes one",
    )


@group.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The token's id: msp_<id>_...")],
    url: Url = None,
    app: App = None,
) -> None:
    """Let a token be good for nothing; servers follow within 5 seconds."""

    async def end(host: DatabaseHost) -> TokenRow:
        pool = await host.pool()
        async with pool.connection(transaction=True) as connection:
            return await tokens.revoke_token(connection, id)

    row = ask_host(end, url, app)
    show.say(f"the token {row.id} of {row.name} is revoked")


def _state(row: TokenRow) -> str:
    return "good" if row.is_good else "revoked" if row.revoked_at is not None else "expired"


def _told(row: TokenRow) -> dict[str, object]:
    told = {k: v for k, v in row._asdict().items() if k not in ("hash", "is_good")}
    return {**told, "state": _state(row)}
