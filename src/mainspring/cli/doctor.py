"""`mainspring doctor`: what is wrong with the server, the schema or the tables."""

from __future__ import annotations

import asyncio

import typer

from mainspring.cli import codes, options, show
from mainspring.cli.table import coloured
from mainspring.cli.target import existing
from mainspring.cli.visible import visible
from mainspring.operate.doctor import Finding


def doctor(
    exact: options.Exact = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Examine the server, the schema and the tables.

    Settings, rights, clock, dead rows, lag and invariants. Exits with 1 if something is bad; warnings
    alone do not count. Of large tables a part is examined, and the finding says so.
    """
    database, found = _examined(url, app, exact)
    if json:
        show.as_json(found)
    else:
        show.say(database)
        _print(found)
    if any(finding.level == "bad" for finding in found):
        raise typer.Exit(codes.PROBLEM)


def _examined(url: str | None, app: str | None, exact: bool) -> tuple[str, list[Finding]]:
    target = existing(url, app)

    async def examine() -> tuple[str, list[Finding]]:
        try:
            found = await target.operator.doctor(exact=exact)
            return (await target.database()).shown, found
        finally:
            await target.close()

    return asyncio.run(examine())


_COLOURS = {"ok": 32, "warn": 33, "bad": 31}  # green, yellow, red


def _print(found: list[Finding]) -> None:
    for finding in found:
        mark = coloured(f"{finding.level:4}", _COLOURS[finding.level])
        show.write(f"{mark} {visible(f'{finding.name}: {finding.text}', lines=True)}")
        if finding.remedy:
            show.say(f"     {finding.remedy}")
