"""The loop guard: stages that set each other off without end are found by the values they write (S16).

A chain is what followed from one outside event: it goes from a system visit to the stages that it
offers, and from a save to the system visit that it makes, one hop more each. From the eighth hop on saves
are remembered; when the fields written in the chain have the same values for the third time, they go in
a circle. Pure; costs no row and no statement.

A stage that asks to be visited again at once writes nothing that could be compared. Some times in a row
that is its good right; from then on the visit is put off, longer each time.

A loop through `saved` hooks, other entities or timers begins a new chain at every turn. So saves are also
counted by entity and hour, in memory: an entity is in one worker's shards at a time.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

import msgspec

from mainspring import clock

QUIET_HOPS = 8
MOST_HOPS = 100
RING = 32
TIMES = 3
# A timer at least this far away is an event of its own (seconds).
RESTS_AFTER = 60.0
# An untouched entity that is wanted again sooner than this has made a hop (seconds).
HOP_BELOW = 0.1
# So many hops in a row are free; each later one is followed by a rest (seconds), twice as long each time.
FREE_HOPS = 3
FIRST_REST, LONGEST_REST = 1.0, 30.0
_SHOWN = 60
# Saves of one entity in an hour that are said.
HOUR = 3600.0
WARN_AT = 1000
# So many entities are counted at once; the quiet ones are forgotten first.
MOST_BUSY = 100_000
log = logging.getLogger("mainspring")


class ChainStep(msgspec.Struct, array_like=True, gc=False):
    """A save in a chain: the stage, and of each field the digest and short text before and after."""

    stage: str
    fields: dict[str, tuple[str, str, str, str]]


class Chain(msgspec.Struct, gc=False):
    """What led here since the last event from outside."""

    n: int = 0
    at: float = 0.0  # when it began, seconds since 1970
    ring: list[ChainStep] = []
    hops: int = 0  # visits that were wanted again at once, since the last save


def begin(payload: Mapping[str, object], now: float) -> Chain:
    """The chain that a visit is part of: a new one if anything from outside is in it."""
    chain = payload.get("chain")
    if "out" in payload or not isinstance(chain, dict):
        return Chain(at=now)
    try:
        return msgspec.convert(chain, Chain)
    except msgspec.ValidationError:
        return Chain(at=now)


def hop(chain: Chain) -> Chain:
    """One hop more without a save."""
    return Chain(chain.n, chain.at, chain.ring, chain.hops + 1)


def rest(chain: Chain) -> float:
    """How long a visit that is wanted at once is put off (seconds)."""
    late = chain.hops - FREE_HOPS
    return 0.0 if late <= 0 else min(FIRST_REST * 2.0 ** min(late - 1, 20), LONGEST_REST)


def extend(chain: Chain, stage: str, changes: Mapping[str, tuple[bytes, bytes]]) -> Chain:
    """The chain after a save: what it changed, as JSON text before and after."""
    if chain.n < QUIET_HOPS:
        return Chain(chain.n + 1, chain.at, chain.ring)
    fields = {
        name: (_digest(old), _short(old), _digest(new), _short(new))
        for name, (old, new) in changes.items()
    }
    return Chain(chain.n + 1, chain.at, [*chain.ring, ChainStep(stage, fields)][-RING:])


def verdict(chain: Chain) -> str | None:
    """Why the save that made this chain must not be written; None if it may."""
    if chain.ring and (period := _period(chain.ring)) is not None:
        steps = "; ".join(_shown(step) for step in chain.ring[-period:])
        return f"stages go in a circle, which came round {TIMES} times: {steps}"
    if chain.n >= MOST_HOPS:
        steps = "; ".join(_shown(step) for step in chain.ring[-6:])
        return f"stages set each other off {chain.n} times without an event from outside, the last: {steps}"
    return None


def encode(chain: Chain) -> dict[str, object]:
    """The chain as a visit carries it."""
    plain: dict[str, object] = {"n": chain.n, "at": round(chain.at, 3)}
    if chain.ring:
        plain["ring"] = msgspec.to_builtins(chain.ring)
    if chain.hops:
        plain["hops"] = chain.hops
    return plain


def _period(ring: list[ChainStep]) -> int | None:
    """After how many saves the values of the last one came round, if they did often enough."""
    values: dict[str, str] = {}
    for step in reversed(ring):
        values |= {name: field[0] for name, field in step.fields.items()}
    seen = []
    for step in ring:
        values |= {name: field[2] for name, field in step.fields.items()}
        seen.append(tuple(sorted(values.items())))
    rounds = [n for n, picture in enumerate(seen) if picture == seen[-1]]
    return rounds[-1] - rounds[-2] if len(rounds) >= TIMES else None


def _shown(step: ChainStep) -> str:
    changes = ", ".join(f"{name} {old} -> {new}" for name, (_, old, _, new) in step.fields.items())
    return f"{step.stage}: {changes}"


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=9).hexdigest()


def _short(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class Busy:
    """The saves of a kind's entities in the hour that runs."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._counts: dict[str, int] = {}
        self._until = 0.0

    def saved(self, key: str, stage: str) -> None:
        """Count a save; the thousandth in an hour is said."""
        now = clock.local()
        if now >= self._until:
            self._counts.clear()
            self._until = now + HOUR
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == WARN_AT:
            extra = {"kind": self._kind, "key": key, "stage": stage, "saves": count}
            log.warning("entity.busy", extra=extra)
        if len(self._counts) > MOST_BUSY:
            self._forget_quiet()

    def _forget_quiet(self) -> None:
        least = 1
        while len(self._counts) > MOST_BUSY // 2:
            self._counts = {key: n for key, n in self._counts.items() if n > least}
            least *= 2
