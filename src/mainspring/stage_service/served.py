"""ServedStage: what a service implements of a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mainspring.stage_service.items import ServedItem

# Plain, or a coroutine function.
StageFunction: TypeAlias = Callable[..., object]


class ServedStage:
    """A stage of another application's kind. Give it a kind, a name, and `process`.

    `should_process(item)` answers True, False or a time; without it the stage is always offered.
    `process(item)` answers Untouched(...) or Update(...). `saved(events)` is told of an entity's events, in
    order. Each may be a coroutine function, or a plain one, which runs in a thread. Raise StageProblem to
    say more of a failure than that it failed.
    """

    kind: str
    stage: str
    # May need less than the application declares, never more; empty: what is declared.
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    schema = 1  # of the states that it writes
    max_items = 0  # entities a call; 0: as declared
    max_bytes = 0

    should_process: StageFunction | None = None
    saved: StageFunction | None = None

    def process(self, item: ServedItem) -> object:
        """What the stage makes of an entity."""
        raise NotImplementedError(f"{type(self).__name__} has no process")
