"""The constants of a worker, each with its reason. Times are seconds.

No other file of the kernel has constants of its own, but for the few that a contract test lists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Of reading, running and settling: how often is looked, and how much is taken at once. No promise
    depends on any of them."""

    # -- reading
    # A look back sees what transactions no longer than this have committed.
    overlap: float = 0.5
    # A busy reader, whom nobody notifies, looks back so often; for each ten queues it has.
    look_every: float = 0.05
    # But not before so many times as long as its last read took, up to this: a look reads again what is in
    # hand. Chains of steps were read six times each.
    look_part: int = 20
    dearest_look: float = 0.1
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
    # A first page has at least so many visits; a payload is taken for so long until some were read.
    first_page: int = 100
    first_bytes: float = 200.0
    # The newest page counts for so much of the average of payloads: one odd page changes little.
    newest_bytes: float = 0.3
    # What waits for room is looked at no more often than this.
    least_rest: float = 0.01
    # So many queues are looked back at in one `look_every`: more of them make each look dearer.
    queues_a_look: int = 10

    # -- listening
    # A word that has the worker beat is followed at most so often, however often it is said.
    word_every: float = 0.1
    # So many different ones may wait for that: there are few pools, and anybody can say anything.
    most_words: int = 100
    # A connection that has been silent for so long is asked whether it lives, and has so long to answer.
    silent: float = 15.0
    silent_answer: float = 10.0
    # After a loss it is opened again no sooner: others come back at the same moment.
    listen_again: float = 0.2

    # -- running
    # What waited in memory for longer is read again: it may have been cancelled.
    stale: float = 5.0
    # So many visits that wait are kept in mind of which somebody said that they are gone.
    most_doubted: int = 10_000
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
    # So many runs of a worker hang at most. Its threads are as many more than its slots.
    most_hanging: int = 10
    # A rate's next start is waited for at least so long: sooner, timers cost more than they bring.
    least_alarm: float = 0.001
    # Of the slots one in so many is left to queues that have none: more would be idle too often.
    spare_part: int = 4

    # -- the worker
    # Visits and results in memory from which on what a commit of ours adds is left to the reader: a
    # fan-out would else wait here as a whole, run and not yet written.
    taken_in: int = 4000
    # A server that does not answer is not waited for longer at the end.
    end_seconds: float = 10.0
    # Runs that were stopped have so long to end: a cancelled handler may clean up, a thread may not.
    stopped_seconds: float = 2.0
    # Whoever waits for a worker to be ready, or for its last results, looks so often.
    ready_look: float = 0.01
    # Whether the pool turned it away, and (it asks the database) whether its queues are drained.
    welcome_look: float = 0.1
    drained_look: float = 0.05

    # -- suspects
    # So many visits that a dead worker may have been running are tried at once.
    suspects: int = 4
    # A try that has lasted so long makes room for the next: what kills a worker mostly does so soon.
    try_seconds: float = 5.0
    # So long where it is the last before it is parked: it is alone meanwhile.
    last_try_seconds: float = 60.0
    # So many of those that wait are put back at the end of a try. All two thousand cost half a core.
    suspects_put_back: int = 8

    # -- settling
    # From so many on runs of one kin share a row of history: then that costs less than a row each.
    bundle_least: int = 250
    # Longer payloads (characters) have a row each: an array is made whole in the server's memory.
    bundle_payload: int = 2_000
    # Runs whose visits somebody has locked are sent again after so long.
    locked_again: float = 0.1


@dataclass(frozen=True, slots=True)
class LeaseTuning:
    """Of the heart and of leases. What is a part is one of the lease time, or says of what."""

    # -- parts of the lease time. That nothing runs twice under one lease needs fence < exit < 1.
    # So many beats may be lost before the fence.
    beat: float = 0.2
    # Runs are stopped after this, and the process (if it must) ends after that: others take over at 1.
    fence: float = 0.7
    exit: float = 0.9
    # The event loop looks so often whether the heart has missed the fence.
    loop_look: float = 0.05
    # A new connection is waited for so long; then the clock is looked at again.
    connect: float = 0.15
    # A turn that takes longer hangs, and its connection is cut when the lease has ended.
    hung: float = 0.5

    # -- the heart
    # A turn that comes after this part of a beat's time beats: else it would be a whole turn late.
    beat_early: float = 0.9
    # The thread sleeps no shorter; for a run that may begin meanwhile no shorter than the second.
    least_sleep: float = 0.01
    least_hold_sleep: float = 0.05
    # Of the shortest time after which runs are held it sleeps no more than this part: it must see them.
    hold_part: float = 0.5
    # A lease that is shorter than so many round trips may end during a turn. That is said when even the
    # shortest of so many beats took that long.
    round_trips: int = 50
    round_trips_seen: int = 5
    # Of so many groups of a queue whose breakers are not closed each read of its settings tells: 150 kB.
    shut_groups: int = 2000
    # At rest one beat in so many and one reads everything: once in a lease time.
    resting_beats: int = 4
    # Visits that are locked when the worker leaves are tried so often, so long apart.
    leave_tries: int = 20
    leave_again: float = 0.1
    # The database's clock is said to have jumped when it moved so much against ours.
    jump: float = 0.25
    # A beat that is late all the same leaves the watchdog so long: it cannot be set to the past.
    least_exit: float = 0.01

    # -- shards, limits and doubts
    # A worker with more visits than slots looks so often whether another one is idle.
    share_every: float = 0.25
    # A visit that has waited here so long for a slot may go to another worker. Sooner, tasks that take
    # no time would go to and fro.
    share_after: float = 0.2
    # While a worker waits for its part of a limit it looks this often.
    parts_every: float = 0.1
    # With fewer permits than workers that want one, each keeps its own for so long: handing it over takes
    # up to two looks, in which it is not used.
    parts_turn: float = 3.0
    # The database is asked so often about runs that somebody says are gone.
    doubts_every: float = 0.1
    # So many shards are recut in one transaction: others wait for no longer than that takes.
    recut_at_once: int = 256
    # Recuts of one turn end after this part of a beat's time.
    recut_part: float = 0.5


DEFAULT = Tuning()
LEASE = LeaseTuning()
