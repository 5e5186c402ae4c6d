"""The engine's own buffer inside an explorer: states keep what it remembers, each step sets it there.

What is explored is `mainspring.kernel.run` itself: the buffer with its choice, its fairness, its queues and
their endpoints. A rule is switched off by a subclass that does not keep it. Time is counted in ticks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from mainspring.endpoint import Endpoint
from mainspring.errors import EndpointAway
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.fairness import Choice, Fairness
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import END, PRIORITIES, Visit
from visits import queue, run_of, visit

# Other work is about for two ticks, a background start counts for one; one run beside slots at once.
TUNING = Tuning(live=2.0, background_start=1.0, beside=1, stale=1e9)
FIXED = ("_slots", "_tuning", "_shared", "_share", "_spare", "shares", "leaves")  # of a fairness

Memory = tuple[Any, ...]


class Offered(NamedTuple):
    """A visit: its number says when it was offered, so which is older."""

    number: int
    queue: str
    priority: int


class Kinds(NamedTuple):
    """The engine's classes, or those without one of their rules."""

    fairness: type[Fairness] = Fairness
    choice: type[Choice] = Choice
    state: type[QueueState] = QueueState
    buffer: type[Buffer] = Buffer
    endpoint: type[Endpoint] = Endpoint


async def _never() -> None:
    raise AssertionError("an endpoint is tried by a step of the model only")


def _tried_by_a_step(kind: type[Endpoint]) -> Endpoint:
    class Tried(kind):  # type: ignore[misc, valid-type]
        def _try_soon(self, rest: float) -> None:
            pass

    endpoint: Endpoint = Tried("E", _never)
    return endpoint


class Driven:
    """One worker's buffer, set to what a state remembers before it is asked or told anything."""

    def __init__(self, queues: Mapping[str, Mapping[str, Any]], slots: int, kinds: Kinds) -> None:
        away = any("endpoint" in settings for settings in queues.values())
        self.endpoint = _tried_by_a_step(kinds.endpoint) if away else None
        declared = [
            queue(
                name,
                **{**settings, "endpoint": self.endpoint} if "endpoint" in settings else settings,
            )
            for name, settings in queues.items()
        ]
        self.buffer = kinds.buffer(declared, Lock(), slots=slots, tuning=TUNING)
        states = [
            kinds.state(queue.settings, hold_after=1.0) for queue in self.buffer.queues.values()
        ]
        self.buffer.queues = {state.name: state for state in states}
        self.buffer.fairness = kinds.fairness(states, slots, TUNING)
        self.buffer.choice = kinds.choice(self.buffer.fairness)
        self._fairness = [name for name in vars(self.buffer.fairness) if name not in FIXED]
        self._known: dict[Offered, Visit] = {}

    # -- memory

    def memory(self) -> Memory:
        buffer = self.buffer
        levels = tuple(
            (state.running, *(tuple(sorted(map(_offered, state.levels[p]))) for p in PRIORITIES))
            for state in buffer.queues.values()
        )
        fairness = tuple(_frozen(getattr(buffer.fairness, name)) for name in self._fairness)
        chosen = buffer.choice.followed, buffer.choice.rival
        return levels, fairness, chosen, self._endpoint_memory()

    def _endpoint_memory(self) -> Memory:
        endpoint = self.endpoint
        return () if endpoint is None else (endpoint.reason, endpoint.most, endpoint.running)

    def recall(self, memory: Memory) -> Buffer:
        buffer, (levels, fairness, chosen, endpoint) = self.buffer, memory
        buffer.consumed.clear()
        for at in (buffer.choice._all, buffer.choice._shared, buffer.choice._beside):
            for waiting in at:
                waiting.clear()
        for state, (running, *pages) in zip(buffer.queues.values(), levels, strict=True):
            state.running, state.known_keys = running, set()
            for priority, page in enumerate(pages):
                level = state.levels[priority]
                level.pages, level._back, level._front = deque(map(self.visit, page)), [], None
                if page:
                    buffer.choice.note(state, priority)
        for name, value in zip(self._fairness, fairness, strict=True):
            setattr(buffer.fairness, name, dict(value) if isinstance(value, tuple) else value)
        buffer.choice.followed, buffer.choice.rival = chosen
        if self.endpoint is not None:
            self.endpoint.reason, self.endpoint.most, self.endpoint.running = endpoint
        return buffer

    def visit(self, offered: Offered) -> Visit:
        if offered not in self._known:
            number, name, priority = offered
            self._known[offered] = visit(
                str(number), at=number, name=name, version=number, priority=priority
            )
        return self._known[offered]

    def forgets_the_choice(self, memory: Memory) -> Memory:
        """The event loop turns: whoever was chosen last is followed no more."""
        return (*memory[:2], (None, END), memory[3])

    # -- what the runner asks and tells

    def offer(self, memory: Memory, offered: Offered, now: int) -> Memory:
        buffer, found = self.recall(memory), self.visit(offered)
        buffer.add_page(offered.queue, offered.priority, [found])
        buffer.met([found], float(now))
        return self.memory()

    def can_start(self, memory: Memory, now: int) -> tuple[bool, float]:
        """Whether anything may start; and if not, when it should be looked again."""
        buffer = self.recall(memory)
        return buffer.choice.can_start(float(now)), buffer.next_at()

    def pop(
        self, memory: Memory, now: int, *, beside: bool
    ) -> tuple[Offered | None, Memory, float]:
        buffer = self.recall(memory)
        found = buffer.pop(float(now), beside=beside)
        return found and _offered(found), self.memory(), buffer.next_at()

    def another(self, memory: Memory, now: int) -> tuple[Offered | None, Memory]:
        found = self.recall(memory).another(float(now))
        return found and _offered(found), self.memory()

    def ended(self, memory: Memory, offered: Offered) -> Memory:
        self.recall(memory).ended(self.visit(offered))
        return self.memory()

    def settled(self, memory: Memory, offered: Offered) -> tuple[bool, Memory]:
        """Whether others may start now."""
        freed = self.recall(memory).settled([run_of(self.visit(offered))])
        return freed, self.memory()

    def endpoint_is(self, memory: Memory, told: Callable[[Endpoint], None]) -> tuple[bool, Memory]:
        """Whether the worker hears of it."""
        self.recall(memory)
        assert self.endpoint is not None
        heard: list[bool] = []
        self.endpoint._told = [lambda: heard.append(True)]
        told(self.endpoint)
        return bool(heard), self.memory()


def leaves(endpoint: Endpoint) -> None:
    endpoint.left(EndpointAway("refused"))


def _offered(found: Visit) -> Offered:
    return Offered(found.version, found.queue, found.priority)


def _frozen(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value


def waiting(memory: Memory) -> Sequence[Offered]:
    """All visits that wait in a buffer."""
    return [found for _, *pages in memory[0] for page in pages for found in page]


def is_away(memory: Memory) -> bool:
    return bool(memory[3]) and memory[3][0] is not None
