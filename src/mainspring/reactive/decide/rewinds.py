"""What a rewind means to a task: computed from how often the param was rewound, never stored. Pure.

A value travels with the number of rewinds its param had (R13, protocol of `docs/design/reactive.md`),
so a run that was under way during a rewind cannot hide it: its success records the old number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from mainspring.errors import InvalidSetting
from mainspring.reactive.decide.evaluate import Fact
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.values import Kind, Raw, Value, compare, from_raw, moment_of

OnRewind: TypeAlias = Literal["report", "rerun", "hold"]
POLICIES: Final[tuple[str, ...]] = get_args(OnRewind)


@dataclass(frozen=True, slots=True)
class Rewind:
    """One rewind of a param: its number (from 1), where it went, the chunks it restated."""

    number: int
    to: Value
    chunks: tuple[datetime, ...] = ()


class SeenValue(NamedTuple):
    """What a task saw of a param at its last recorded success, and how often it was rewound by then."""

    value: Value | None
    rewinds: int = 0


class RawRewind(NamedTuple):
    """A rewind as tables have it."""

    param: str
    number: int
    to: Raw
    chunks: tuple[int, ...]


def rewinds_of(raw: Iterable[RawRewind], kinds: Mapping[str, Kind]) -> dict[str, list[Rewind]]:
    """Rewinds by param; of those of a known kind."""
    found: dict[str, list[Rewind]] = {}
    for rewind in raw:
        if (kind := kinds.get(rewind.param)) is not None:
            chunks = tuple(map(moment_of, rewind.chunks))
            made = Rewind(rewind.number, from_raw(kind, rewind.to), chunks)
            found.setdefault(rewind.param, []).append(made)
    return found


def check_policy(given: object) -> OnRewind:
    """What a task wants done when a param of its trigger is rewound."""
    if given not in POLICIES:
        raise InvalidSetting(
            f"on_rewind is one of {', '.join(map(repr, POLICIES))}, not {given!r}; 'report' lists the "
            "task as affected, 'rerun' does the data again, 'hold' waits for a repair"
        )
    return given  # type: ignore[return-value]


def fact_of(
    value: Value | None, seen: SeenValue | None, rewinds: Iterable[Rewind], policy: OnRewind
) -> Fact:
    """The current value, and the last one as the task's policy has it."""
    if seen is None or seen.value is None:
        return Fact(value, None)
    if policy != "rerun":
        return Fact(value, seen.value)
    last, restated = seen.value, False
    for rewind in rewinds_since(seen, rewinds):
        if compare(last, rewind.to) == "lower":
            last = rewind.to
        restated = restated or bool(_loaded(rewind.chunks, value))
    return Fact(value, last, restated)


def rewinds_since(seen: SeenValue | None, rewinds: Iterable[Rewind]) -> list[Rewind]:
    """The rewinds that the task's last recorded success had not seen, oldest first."""
    if seen is None:
        return []
    return sorted((r for r in rewinds if r.number > seen.rewinds), key=lambda r: r.number)


def chunks_to_do(
    chunk: Chunk, fact: Fact, seen: SeenValue | None = None, rewinds: Iterable[Rewind] = ()
) -> list[datetime]:
    """The starts of the chunks that a run has to do, oldest first.

    All chunks later than that of the last value, up to that of the current one; and those that were
    restated since. Without a last value: the current chunk only.
    """
    if not isinstance(fact.value, datetime):
        return []
    if isinstance(fact.last, datetime):
        starts = set(chunk.starts(fact.last, fact.value))
    else:
        starts = {chunk.floor(fact.value)}
    for rewind in rewinds_since(seen, rewinds):
        starts.update(chunk.floor(start) for start in _loaded(rewind.chunks, fact.value))
    return sorted(starts)


def _loaded(chunks: Sequence[datetime], value: Value | None) -> list[datetime]:
    """Of restated chunks, those that are there again: they begin before the current value."""
    return [start for start in chunks if isinstance(value, datetime) and start < value]
