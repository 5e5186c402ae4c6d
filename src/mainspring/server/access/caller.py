"""Who calls, and the check of each thing that he asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from mainspring.errors import Forbidden
from mainspring.server.access.scopes import ADMIN, Scopes


class Proof(NamedTuple):
    """By what he proved it: a token's id, or a name in a client certificate."""

    kind: Literal["token", "san"]
    name: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has proved who he is. His name stands beside what he changes."""

    name: str
    scopes: Scopes
    proof: Proof | None = None  # None: one that nobody revokes

    def check(self, verb: str, name: str) -> None:
        """Raise Forbidden unless he may do this to what has this name."""
        if not self.scopes.allow(verb, name):
            raise Forbidden(self.name, verb if verb == name else f"{verb}:{name}")


def anybody() -> Caller:
    """The caller of a server without authentication."""
    return Caller("anybody", Scopes([ADMIN]))
