"""Who a call comes from: by its token, or by the name in its client certificate.

What the database said is believed for a few seconds, so that a revoked token is good for no longer.
Ids that nobody has heard of are looked up few at a time, in a line of their own: who sends made-up tokens
keeps nobody else from the database, nor out of what is remembered.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

from mainspring.errors import DatabaseUnavailable, Overloaded, Unauthenticated
from mainspring.server.access.caller import Caller, Proof, anybody
from mainspring.server.access.scopes import ADMIN, Scopes
from mainspring.server.access.tokens import TokenRow, split
from mainspring.server.handlers.store import Store
from mainspring.server.statements import SQL

V = TypeVar("V")
BELIEVED_SECONDS = 4.0
MOST_BELIEVED = 10_000
# Of strangers: looked up at once, waiting for it, remembered as unknown.
STRANGERS_AT_ONCE, STRANGERS_IN_LINE, MOST_UNKNOWN = 2, 50, 1000


class Callers:
    """Finds the caller of each call."""

    def __init__(
        self, store: Store, *, local_token: str | None = None, open_to_all: bool = False
    ) -> None:
        """`local_token`: of this machine, which may do everything. `open_to_all`: nobody is asked."""
        self._store = store
        self._local = None if local_token is None else split(local_token)
        self._open_to_all = open_to_all
        self._found: OrderedDict[Proof, tuple[float, TokenRow]] = OrderedDict()
        self._unknown: OrderedDict[Proof, float] = OrderedDict()
        self._strangers = asyncio.Semaphore(STRANGERS_AT_ONCE)
        self._in_line = 0
        self._asked: dict[Proof, asyncio.Task[TokenRow | None]] = {}
        self._callers: dict[tuple[Proof, str, tuple[str, ...]], Caller] = {}

    async def find(self, authorization: str | None, names: Sequence[str] = ()) -> Caller:
        """The caller with this header, over a connection whose certificate has these names."""
        if self._open_to_all:
            return anybody()
        if authorization is not None:
            return await self._by_token(authorization)
        for name in names:
            row = await self._row(proof := Proof("san", name))
            if row is not None and row.is_good:
                return self._caller(proof, row)
        raise Unauthenticated(
            "say who you are: authorization: Bearer msp_..., or a client certificate that has scopes"
        )

    async def _by_token(self, authorization: str) -> Caller:
        kind, _, text = authorization.partition(" ")
        found = split(text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise Unauthenticated("the authorization must be: Bearer msp_<id>_<secret>")
        id, digest = found
        if self._local is not None and id == self._local[0]:
            if hmac.compare_digest(digest, self._local[1]):
                return Caller("local", Scopes([ADMIN]))
            raise _not_good()
        row = await self._row(proof := Proof("token", id))
        if row is None or row.hash is None or not hmac.compare_digest(digest, row.hash):
            raise _not_good()
        if not row.is_good:
            raise no_longer_good(proof)
        return self._caller(proof, row)

    async def is_good(self, caller: Caller) -> bool:
        """Whether what he proved himself by still is. Nobody goes because the database is away."""
        if caller.proof is None:
            return True
        try:
            row = await self._row(caller.proof)
        except (DatabaseUnavailable, Overloaded):
            return True
        return row is not None and row.is_good

    async def _row(self, place: Proof) -> TokenRow | None:
        now = time.monotonic()
        if (known := self._found.get(place)) is not None and now - known[0] < BELIEVED_SECONDS:
            return known[1]
        if now - self._unknown.get(place, -BELIEVED_SECONDS) < BELIEVED_SECONDS:
            return None
        # However many calls of one caller come at once, the database is asked once.
        if (asked := self._asked.get(place)) is None:
            asked = asyncio.get_running_loop().create_task(self._ask(place))
            self._asked[place] = asked
            asked.add_done_callback(lambda task: self._told(place, task))
        return await asyncio.shield(asked)

    async def _ask(self, place: Proof) -> TokenRow | None:
        if place in self._found:
            return await self._look_up(place)
        if self._in_line >= STRANGERS_IN_LINE:
            raise Overloaded("many unknown tokens are being looked up; send it again")
        self._in_line += 1
        try:
            async with self._strangers:
                return await self._look_up(place)
        finally:
            self._in_line -= 1

    async def _look_up(self, place: Proof) -> TokenRow | None:
        now = time.monotonic()
        if place.kind == "san":
            rows = await self._store.rows(SQL["find_san"], TokenRow, san=place.name)
        else:
            rows = await self._store.rows(SQL["find_token"], TokenRow, id=place.name)
        if not rows:
            self._found.pop(place, None)
            _remember(self._unknown, place, now, MOST_UNKNOWN)
            return None
        _remember(self._found, place, (now, rows[0]), MOST_BELIEVED)
        return rows[0]

    def _told(self, place: Proof, task: asyncio.Task[TokenRow | None]) -> None:
        del self._asked[place]
        if not task.cancelled():
            task.exception()  # whoever waited has it; all of them may have gone

    def _caller(self, proof: Proof, row: TokenRow) -> Caller:
        """Scopes are read once, however many calls come."""
        place = (proof, row.name, tuple(row.scopes))
        if (caller := self._callers.get(place)) is None:
            if len(self._callers) > MOST_BELIEVED:
                self._callers.clear()
            caller = self._callers[place] = Caller(row.name, Scopes(row.scopes), proof)
        return caller


def _remember(known: OrderedDict[Proof, V], place: Proof, value: V, most: int) -> None:
    """The latest; the oldest go."""
    known[place] = value
    known.move_to_end(place)
    while len(known) > most:
        known.popitem(last=False)


def no_longer_good(proof: Proof) -> Unauthenticated:
    """What is said of a token or a certificate that was good once."""
    what = "token" if proof.kind == "token" else "certificate's name"
    return Unauthenticated(f"the {what} {proof.name} has expired or was revoked")


def _not_good() -> Unauthenticated:
    return Unauthenticated("there is no such token")
