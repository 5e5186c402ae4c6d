"""Tokens: `msp_<id>_<secret>`. The database has the SHA-256 of the secret, nobody has the secret again.

A secret has 256 random bits, so a plain digest of it is as good as a slow one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.operate import record_order
from mainspring.server.access.scopes import check_scopes
from mainspring.server.statements import SQL

LIFETIME = timedelta(days=90)
LONGEST_LIFETIME = timedelta(days=3650)
_TOKEN = re.compile(r"msp_([0-9a-z]{12})_([0-9A-Za-z_-]{43})\Z")


class TokenRow(NamedTuple):
    """A token, or a name that client certificates may show."""

    id: str
    name: str
    hash: bytes | None
    san: str | None
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    is_good: bool  # neither expired nor revoked


class MadeToken(NamedTuple):
    """A new token; its text is shown once."""

    row: TokenRow
    text: str | None  # None: a certificate's name


def split(text: str) -> tuple[str, bytes] | None:
    """A token's id and the digest of its secret; None if it is no token."""
    match = _TOKEN.match(text)
    return None if match is None else (match[1], digest(match[2]))


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def new_token() -> tuple[str, str, str]:
    """A new id, a new secret, and the token of both."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return id, secret, f"msp_{id}_{secret}"


async def create_token(
    tx: Tx,
    name: str,
    scopes: Sequence[str],
    *,
    lifetime: timedelta = LIFETIME,
    san: str | None = None,
    by: str = "",
) -> MadeToken:
    """Make a token; with `san` let in who shows a client certificate with that name."""
    if not name or len(name.encode()) > 200 or "\0" in name:
        raise InvalidSetting(f"a token's name has 1 to 200 bytes, got {name!r}")
    if not timedelta(0) < lifetime <= LONGEST_LIFETIME:
        raise InvalidSetting(
            f"a token lives for up to {LONGEST_LIFETIME.days} days, got {lifetime}"
        )
    if san is not None and await tx.first(SQL["find_san"], TokenRow, san=san) is not None:
        raise InvalidSetting(
            f"the certificate's name {san!r} has scopes already: revoke that first"
        )
    id, secret, text = new_token()
    row = await tx.one(
        SQL["insert_token"],
        TokenRow,
        id=id,
        name=name,
        hash=None if san is not None else digest(secret),
        san=san,
        scopes=check_scopes(scopes),
        lifetime=lifetime,
        created_by=by,
    )
    details = {"name": name, "scopes": list(scopes)}
    await record_order(tx, "tokens.create", id, details=details, source=by)
    return MadeToken(row, None if san is not None else text)


async def list_tokens(tx: Tx) -> list[TokenRow]:
    """All tokens, the newest first."""
    return await tx.rows(SQL["list_tokens"], TokenRow)


async def revoke_token(tx: Tx, id: str) -> TokenRow:
    """Let a token be good for nothing; servers follow within seconds."""
    row = await tx.first(SQL["revoke_token"], TokenRow, id=id)
    if row is None:
        raise NotFound(f"there is no token {id!r}; mainspring tokens list shows them")
    await record_order(tx, "tokens.revoke", id)
    return row
