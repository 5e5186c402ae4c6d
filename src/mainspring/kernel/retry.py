"""What a failure leads to: pure rules from a policy, an attempt and an exception to an outcome."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import thread
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from mainspring.errors import InvalidSetting
from mainspring.kernel.outcome import Outcome, Parked, Retry
from mainspring.shape import told

ERROR_BYTES = 16_000
GROUP_SHOWN = 3  # of the exceptions of a group
FRAMES_SHOWN = 8  # of a traceback, the last ones
FRAMES_KEPT = 200  # texts of such frames
LONGEST_DELAY = 315_360_000.0  # ten years: what is added to a time must still be one
STEEPEST = 1000.0
MOST_ATTEMPTS = 1_000_000
# Where calls come through before they are in the user's code: here, and a thread of the pool.
ENGINE = (f"{Path(__file__).parents[1]}{os.sep}", thread.__file__)

_frames: dict[tuple[object, ...], str] = {}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failed visit is tried again, and after how long.

    Delays grow from `first` seconds by `factor` up to `most`, each drawn between half and all of it.
    `give_up_on` names exceptions that are never retried; `only_on`, if set, those that alone are.

    Example: `RetryPolicy(attempts=5, first=2.0, give_up_on=(ValueError,))`
    """

    attempts: int = 10
    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    give_up_on: Sequence[type[BaseException]] = ()
    only_on: Sequence[type[BaseException]] | None = None
    per_exception: dict[type[BaseException], RetryPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise InvalidSetting(f"attempts must be 1 to {MOST_ATTEMPTS}, got {self.attempts!r}")
        for name in ("first", "factor", "most"):
            if not isinstance(getattr(self, name), int | float):
                what = "a number" if name == "factor" else "a number of seconds"
                raise InvalidSetting(f"{name} must be {what}, got {getattr(self, name)!r}")
        if not 0 <= self.most <= LONGEST_DELAY:
            raise InvalidSetting(f"most must be 0 to {LONGEST_DELAY:g} seconds, got {self.most!r}")
        if not 0 <= self.first <= self.most:
            raise InvalidSetting(
                f"first must be 0 to most ({self.most!r} seconds), got {self.first!r}"
            )
        if not 1 <= self.factor <= STEEPEST:
            raise InvalidSetting(f"factor must be 1 to {STEEPEST:g}, got {self.factor!r}")
        for name in ("give_up_on", "only_on", "per_exception"):
            given = getattr(self, name) or ()
            if not isinstance(given, Iterable):
                raise InvalidSetting(
                    f"{name} must be a tuple of exception classes, got {given!r}; note the comma in "
                    "(ValueError,)"
                )
            for kind in given:
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise InvalidSetting(f"{name} must name exception classes, got {kind!r}")

    def delay(self, failures: int) -> float:
        """Seconds to wait after the failure number `failures` (1 for the first)."""
        full = min(self.most, self.first * self.factor ** min(failures - 1, 64))
        return full * (0.5 + random.random() / 2)

    def applying_to(self, error: BaseException) -> RetryPolicy:
        """The policy for this exception: the nearest class that has one of its own."""
        for kind in type(error).__mro__:
            if kind in self.per_exception:
                return self.per_exception[kind]
        return self


def judge(policy: RetryPolicy, *, failures: int, error: BaseException) -> Outcome:
    """What the failure number `failures` of a visit leads to."""
    policy = policy.applying_to(error)
    name, text = describe(error)
    final = isinstance(error, tuple(policy.give_up_on)) or (
        policy.only_on is not None and not isinstance(error, tuple(policy.only_on))
    )
    if final or failures >= policy.attempts:
        return Parked(error_type=name, error=text)
    return Retry(after=policy.delay(failures), error_type=name, error=text)


def describe(error: BaseException) -> tuple[str, str]:
    """The exception's type and a text of it that PostgreSQL can store, whatever it contains."""
    name, message, shown = _name_of(error), _message_of(error), [error]
    if isinstance(error, BaseExceptionGroup):  # says of itself only how many there are
        leaves = list(_leaves(error))[:GROUP_SHOWN]
        message += "".join(f"; {_name_of(leaf)}: {_message_of(leaf)}" for leaf in leaves)
        shown += leaves
    frames = ""
    for each in shown:
        with suppress(BaseException):
            frames += _frames_of(each)
    return clean_text(name, 500), clean_text(
        f"{name}: {message[:ERROR_BYTES]}\n{frames}".rstrip(), ERROR_BYTES
    )


def _name_of(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message_of(error: BaseException) -> str:
    try:
        return told(error)
    except BaseException as broken:  # an exception whose __str__ raises is still an exception
        return f"(its text cannot be had: {type(broken).__name__})"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _frames_of(error: BaseException) -> str:
    """The last frames of an exception's traceback as text. To make it takes longer than a small task, and
    failures come from few places: those of the last ones are kept."""
    trace = each = _below(error.__traceback__)
    places = []
    while each is not None:
        code = each.tb_frame.f_code  # equal to others of the same text in another file
        places.append((code.co_filename, code, each.tb_lasti, each.tb_lineno))
        each = each.tb_next
    key = tuple(places[-FRAMES_SHOWN:])
    text = _frames.get(key)
    if text is None:
        if len(_frames) >= FRAMES_KEPT:
            _frames.clear()
        text = _frames[key] = "".join(traceback.format_tb(trace, limit=-FRAMES_SHOWN))
    return text


def _below(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the user's own code on; all of it where there is none."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(ENGINE):
        found = found.tb_next
    return trace if found is None else found


def clean_text(text: str, most: int) -> str:
    """Text without NUL and lone surrogates, of at most so many bytes; what is cut is said."""
    raw = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    return raw[: most - 40].decode("utf-8", "ignore") + f"... ({len(raw)} bytes in all)"
