"""Who calls, and the check of each thing that he asks for."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.errors import Forbidden
from mainspring.server.access.scopes import ADMIN, Scopes


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has proved who he is. His name stands beside what he changes."""

    name: str
    scopes: Scopes

    def check(self, verb: str, name: str) -> None:
        """Raise Forbidden unless he may do this to what has this name."""
        if not self.scopes.allow(verb, name):
            raise Forbidden(self.name, f"{verb}:{name}")


def anybody() -> Caller:
    """The caller of a server without authentication."""
    return Caller("anybody", Scopes([ADMIN]))
