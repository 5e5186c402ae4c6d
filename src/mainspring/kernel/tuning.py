"""The constants of reading, running and settling, each with its reason. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """How often is looked, and how much is taken at once. No promise depends on any of them."""

    # -- reading
    # A look back sees what transactions no longer than this have committed.
    overlap: float = 0.5
    # A busy reader, whom nobody notifies, looks back so often; for each ten queues it has.
    look_every: float = 0.05
    # A step back goes so much further: times are rounded on their way.
    moment: float = 0.000_001
    # The database's time is known to us no better than this.
    clock_error: float = 0.02
    # Nothing more is read while so many pages of results are in memory only.
    unsettled_pages: int = 3
    # So few results on their way do not make a worker busy.
    few_unsettled: int = 16
    # So many quiet levels above are read with each page: each is a step down an index.
    urgent_levels: int = 64
    # A page has at least so many visits, and of payload not much more than this.
    least_page: int = 10
    page_bytes: int = 8_000_000
    # Who just fell asleep polls so often, for so long: an offer may have looked before.
    watch_every: float = 0.075
    watch_for: float = 1.0
    # The flag that asks for notifications is a write: not more often than this.
    flag_every: float = 0.1
    # So many visits that run are named to the question what is due next: due, but not next.
    known: int = 50
    # A sweep has one of so many parts of the time; one that met a stall costs no more than this.
    sweep_part: int = 20
    dearest_sweep: float = 0.5
    # By this part polls differ, so that workers do not sweep in step.
    spread: float = 0.1
    # So many groups are read at once.
    most_groups: int = 500

    # -- running
    # What waited in memory for longer is read again: it may have been cancelled.
    stale: float = 5.0
    # Background visits give way for so long after other work was read.
    live: float = 1.0
    # Then so many of a level are read at once: as many as there are slots.
    few_background: int = 48
    # And one of so many slots may start them. With one of 16 a restart was a third as fast.
    background_part: int = 4
    # Such a start counts until it is settled, but no longer than this: it may wait.
    background_start: float = 0.05
    # So many visits of the engine's own run beside slots that are all taken.
    beside: int = 32
    # Handlers that never suspend let the other loops run so often.
    yield_every: float = 0.005
    # What could not be held, somebody has locked: it is left alone so long.
    hold_again: float = 0.05
    # A run that was told to end has so long before its slot goes on without it.
    stop_seconds: float = 5.0
    # So long if its visit goes on without it: it was overtaken, and had its time.
    gone_seconds: float = 0.2
    # And so long if it hangs already and its place is needed for another.
    room_seconds: float = 1.0
    # At a stop it is looked so often whether those that have not ended hang.
    stop_look: float = 0.1

    # -- suspects
    # So many visits that a dead worker may have been running are tried at once.
    suspects: int = 4
    # A try that has lasted so long makes room for the next: what kills a worker mostly does so soon.
    try_seconds: float = 5.0
    # So long where it is the last before it is parked: it is alone meanwhile.
    last_try_seconds: float = 60.0
    # So many of those that wait are put back at the end of a try. All two thousand cost half a core.
    suspects_put_back: int = 8

    # -- groups
    # A full group keeps so many visits in memory: enough to go on without a read for each.
    group_keeps: int = 32
    # Where there are many groups each keeps fewer: about so many in all, and one at least.
    groups_keep: int = 4000

    # -- settling
    # From so many on runs of one kin share a row of history: then that costs less than a row each.
    bundle_least: int = 250
    # Longer payloads (characters) have a row each: an array is made whole in the server's memory.
    bundle_payload: int = 2_000
    # Runs whose visits somebody has locked are sent again after so long.
    locked_again: float = 0.1


DEFAULT = Tuning()
