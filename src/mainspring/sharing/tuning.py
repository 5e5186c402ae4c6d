"""The constants of sharing, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareTuning:
    """No promise depends on any of them but the first."""

    # After a gap between my own looks of so long I know nothing about the others: a part of the lease time.
    gap: float = 0.5
    # More bands than this are a beat's work to read: then each code has one, with what those before lack.
    most_bands: int = 16
    # Who has all of a band takes it from those who have a part, once they have this part of all slots.
    enough: float = 0.25


SHARING = ShareTuning()
