"""Tokens of those who call the server: whose expire soon. Nothing secret is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.operate.doctor import Finding
from mainspring.operate.rights import missing_rights
from mainspring.operate.statements import SQL
from mainspring.phrases import counted, instant

DAY = 86_400.0
# A token that ends within so long is warned of, and one that has ended for as long.
SOON_SECONDS = 14 * DAY
NAMED = 5  # one by one
_READ = (("SELECT", "mainspring.api_token"),)


class TokenEnd(NamedTuple):
    """A row of list_token_ends.sql: a name, and the end of its last token."""

    name: str
    expires_at: datetime
    seconds_left: float


async def list_token_ends(database: Database, tx: Tx) -> list[TokenEnd]:
    """The ends of tokens, the next one first; none for a role that may not know of them."""
    if await missing_rights(database, tx, _READ):
        return []
    return await tx.rows(SQL["list_token_ends"], TokenEnd, forgotten_after=SOON_SECONDS)


async def examine(database: Database, tx: Tx) -> list[Finding]:
    """What the doctor says of tokens."""
    return list(judge(await list_token_ends(database, tx)))


def judge(found: Sequence[TokenEnd]) -> Iterator[Finding]:
    """Whose tokens end soon, or have ended."""
    remedy = "mainspring tokens create makes another; one that nobody needs is revoked"
    ended = [each for each in found if each.seconds_left <= 0]
    soon = [each for each in found if 0 < each.seconds_left <= SOON_SECONDS]
    for some, words in ((ended, "can call no longer"), (soon, "can soon call no longer")):
        if some:
            ends = ", ".join(f"{each.name} ({instant(each.expires_at)})" for each in some[:NAMED])
            more = f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
            text = f"{counted(len(some), 'caller')} {words}, for their tokens expire: {ends}{more}"
            yield Finding("tokens", "warn", text, remedy)
    if found and not (ended or soon):
        yield Finding("tokens", "ok", f"tokens of {counted(len(found), 'caller')} are good")
