"""The rules of the visit protocol, each a switch, and the bounds of a search."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol; off, each leaves a trap open."""

    token_versions: bool = True  # off: a counter that starts at 1 in each new row
    offer_always_writes: bool = True  # off: "already due, so no offer"
    settle_respects_foreign_hold: bool = True
    clear_own_pass_when_superseded: bool = True
    client_drawn_pass: bool = True  # off: a settle knows the pass only from the hold's answer
    hold_matches_own_pass: bool = True  # off: a hold sent again finds its own hold in the way
    hold_before_give: bool = True
    give_counts_waiting_holds: bool = True  # off: a run that waits for its hold is not given
    drop_shard_before_give: bool = True  # off: memory drops the shard with the answer
    give_compares_epoch: bool = True  # off: a give frees whatever lease is its worker's
    adopt_draws_epoch: bool = True  # off: a shard found at a beat is kept under its old epoch
    load_held_after_take: bool = True  # off: held rows are not loaded at all
    load_in_later_statement: bool = True  # off: they are loaded by the take's own snapshot
    load_held_after_adopt: bool = True
    take_locks_worker_row: bool = True  # off: a late take gives the shard to a gone worker
    compare_and_delete_takeover: bool = True
    fence_before_takeover: bool = True  # off: the timing assumption itself is broken
    new_id_after_fence: bool = True  # off: a fenced worker beats on if its row is still there
    recover_compares_pass: bool = True
    answers_match_requests: bool = True  # off: a late answer to a take or load counts for ever
    clear_forgotten_holds: bool = True  # off: a hold that lands after its run was dropped stays
    read_checks: str = "worker row"  # or "lease", or "nothing"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each thing may happen; the product of these is the size of the search."""

    offers: int = 2
    runs: int = 3
    holds: int = 1
    agains: int = 0
    losses: int = 1  # answers lost, and statements doubted while still on their way
    crashes: int = 0
    fences: int = 0
    late_beats: int = 0
    gives: int = 0
    takes: int = 2
    recovers: int = 1
    hold_at_start: frozenset[int] = frozenset()  # queues that hold before they run
    queues: tuple[int, ...] = (0, 1)  # queues that get offers
