"""Who looks, and what they may do. Whoever mounts the console says who that is.

An action has the name that it has in the audit (`queues.pause`, `parked.restart`). The check is made here
and nowhere else: a button that is not shown is no permission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from mainspring.errors import Forbidden

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody at the console. `may`: actions, groups of them (`queues`), or `*`; none: only looks."""

    name: str
    may: frozenset[str] = frozenset()

    def can(self, action: str) -> bool:
        """Whether this action is allowed."""
        group = action.partition(".")[0]
        return not self.may.isdisjoint({EVERYTHING, group, action})

    def check(self, action: str) -> None:
        """Raise Forbidden unless it is."""
        if not self.can(action):
            raise Forbidden(self.name, f"console.act:{action}")

    def read_only(self) -> Viewer:
        """The same, who only looks."""
        return Viewer(self.name)


Authenticate = Callable[[HTTPConnection], Awaitable[Viewer | None]]
# What somebody typed, or a link brought; answers the token to keep in the cookie, if it is good.
LogIn = Callable[[str], Awaitable[str | None]]


async def anybody(_: HTTPConnection) -> Viewer:
    """Everybody may do everything: for a server that nobody else reaches."""
    return Viewer("anybody", frozenset({EVERYTHING}))
