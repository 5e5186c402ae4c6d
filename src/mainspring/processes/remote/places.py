"""Where the rows of visits lay when they were handed out, by their runs: hints, by which results alone are
settled without a search. Whoever has none, another server for instance, looks for the row by its key.
"""

from __future__ import annotations

MOST = 20_000


class RowPlaces:
    """The latest of them, in one event loop."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def note(self, run: int, address: str) -> None:
        """A visit is held by this run, and its row lies there now."""
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[run] = address

    def take(self, run: int) -> str | None:
        """Where the row of its visit lay, if that is known; asked once."""
        return self._known.pop(run, None)
