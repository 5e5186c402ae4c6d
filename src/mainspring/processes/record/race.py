"""Races: how many ends of several promises are waited for, and which of them count. Pure.

`@first_of` is the oldest form: the first end counts, and the others are called off. `@some_of` says in
its arguments what it needs.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

FIRST_OF = "@first_of"
SOME_OF = "@some_of"
RACES = (FIRST_OF, SOME_OF)


MOST = 20_000  # inputs of a race: as many as a decision makes tasks


class RaceTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a race needs: `need` successes of its inputs, or (`ends`) ends of whatever kind."""

    of: tuple[int, ...] = ()  # which edges its inputs are
    need: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 1
    ends: bool = False
    one: bool = False  # its result is the first alone, not a list
    go_on: bool = False  # the others are not called off

    def left(self, kept: int, failed: int, still_open: int) -> int:
        """How many further ends are to be waited for; 0: it is decided, or cannot be won any more.

        No more than are missing: then every end that may decide it is looked at.
        """
        missing = self.need - kept - (failed if self.ends else 0)
        return missing if 0 < missing <= still_open else 0


FIRST = RaceTerms(ends=True, one=True)
_terms = msgspec.json.Decoder(RaceTerms)


def terms_of(actor: str, args: str | None) -> RaceTerms:
    """The terms of a race, from its arguments."""
    return FIRST if actor == FIRST_OF else _terms.decode(args or "{}")
