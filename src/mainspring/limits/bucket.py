"""A bucket: how many starts a rate allows. Pure memory, no I/O."""

from __future__ import annotations

import math

from mainspring.limits.tuning import DEFAULT


class Bucket:
    """Tokens that drip at a rate; a start takes one. Begins empty, unless it is known for how long nothing
    was taken. Holds a tenth of a second's worth, or what `burst` says; one at least."""

    __slots__ = ("_at", "_rate", "_size", "_tokens")

    def __init__(
        self, rate: float, now: float, *, burst: float | None = None, rested: float = 0.0
    ) -> None:
        self._rate = rate
        self._size = _size(rate, burst)
        self._tokens = min(self._size, rested * rate)
        self._at = now

    @property
    def rate(self) -> float:
        return self._rate

    def change(self, rate: float, now: float, *, burst: float | None = None) -> None:
        """Another rate from now on; what had dripped stays, up to the new size."""
        self._drip(now)
        self._rate, self._size = rate, _size(rate, burst)
        self._tokens = min(self._tokens, self._size)

    def ready_at(self, now: float) -> float:
        """When a token can be had: now or earlier, if at once; infinity, if never."""
        tokens = self._at_moment(now)  # changes nothing: the heart's thread may ask too
        if tokens >= 1:
            return now
        return now + (1 - tokens) / self._rate if self._rate > 0 else math.inf

    def tokens(self, now: float) -> float:
        """What it holds."""
        return self._at_moment(now)

    def take(self, now: float) -> None:
        self._drip(now)
        self._tokens -= 1

    def full_at(self) -> float:
        """When it will hold all it can; infinity, if never."""
        missing = self._size - self._tokens
        return self._at + missing / self._rate if self._rate > 0 else math.inf

    def _drip(self, now: float) -> None:
        if now > self._at:
            self._tokens = self._at_moment(now)
            self._at = now

    def _at_moment(self, now: float) -> float:
        if now <= self._at:
            return self._tokens
        return min(self._size, self._tokens + (now - self._at) * self._rate)


def _size(rate: float, burst: float | None) -> float:
    return max(1.0, rate / DEFAULT.bucket_part if burst is None else burst)
