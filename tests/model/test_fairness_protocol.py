"""Fairness, searched: each start is the one that is due, and nobody waits in vain, with every rule on."""

from dataclasses import fields
from typing import Any

import pytest
from explorer import Report, explore
from fairness_protocol import Bounds, FairnessProtocol
from fairness_rules import Rules, kinds_by
from traps import Trap, assert_sound, by_rule

FAIR = "starts are fair"
FULL = "slots are not exceeded"
VAIN = "nobody waits in vain"


def of(visits: int, priority: int = 5, **settings: Any) -> dict[str, Any]:
    return {"visits": visits, "priority": priority, **settings}


LOW = 1
ORDER = Bounds({"a": of(3), "b": of(1), "less": of(1, 3)})
SHARE = Bounds({"live": of(2), "crawl": of(3, share=0.5)}, slots=4)
SHARES = Bounds({"a": of(3, share=0.5), "b": of(2, share=0.25)}, slots=4)
STARTS = Bounds({"live": of(6), "crawl": of(3, 4, share=0.5)}, at_once=True)
STAGES = Bounds({"a": of(3, leaves_slots=True), "b": of(1, leaves_slots=True), "c": of(1)}, slots=4)
STAGES_APART = Bounds(
    {"a": of(3, leaves_slots=True), "b": of(0, leaves_slots=True), "apart": of(1, slots=1)}, slots=4
)
BESIDE = Bounds({"live": of(2), "own": of(2, beside=True), "apart": of(1, slots=1)})
APART = Bounds({"live": of(2), "apart": of(3, slots=1)})
ENDPOINT = Bounds(
    {"a": of(2, slots=2, endpoint=True), "b": of(2, slots=2, endpoint=True)}, leaves=1
)
BACKGROUND = Bounds({"live": of(1), "low": of(3, LOW)}, slots=4, clock=3)
CRAWL = Bounds(
    {"live": of(3), "low": of(1, LOW), "crawl": of(1, LOW, share=0.5)}, slots=4, at_once=True
)

SOUND = {
    "priorities and age": ORDER,
    "a crawl beside live work": SHARE,
    "two crawls of different shares": SHARES,
    "a crawl's part of the starts": STARTS,
    "stages leave each other slots": STAGES,
    "stages beside a queue with slots of its own": STAGES_APART,
    "the engine's own work": BESIDE,
    "a queue with slots of its own": APART,
    "two queues that need one endpoint": ENDPOINT,
    "background work gives way": BACKGROUND,
    "a crawl beside live and background work": CRAWL,
}

LARGER = {
    "two crawls beside live work": Bounds(
        {"live": of(1), "a": of(3, share=0.5), "b": of(1, 4, share=0.25)}, slots=4
    ),
    "stages beside a crawl": Bounds(
        {"a": of(3, leaves_slots=True), "b": of(1, leaves_slots=True), "c": of(1, share=0.5)},
        slots=4,
    ),
    "a crawl beside live and background work": Bounds(
        {"live": of(2), "low": of(1, LOW), "crawl": of(1, LOW, share=0.5)}, slots=2, clock=1
    ),
}

TRAPS = [
    Trap("beside_is_for_who_needs_none", FAIR, "starts beside", BESIDE),
    Trap("own_work_needs_none", VAIN, "own", BESIDE),
    Trap("own_slots_are_counted", FAIR, "apart", APART),
    Trap("own_slots_take_no_others", VAIN, "apart", STAGES_APART),
    Trap("urgent_first", FAIR, "less", ORDER),
    Trap("oldest_first", FAIR, "a is offered", ORDER),
    Trap("follows_up_to_the_rival", FAIR, "follows", ORDER),
    Trap("share_of_slots", FAIR, "crawl", SHARE),
    Trap("smaller_share_counts_its_own", VAIN, "b is offered", SHARES),
    Trap("share_of_starts", FAIR, "live", STARTS),
    Trap("every_start_earns", FAIR, "live", STARTS),
    Trap("follow_ends_for_what_is_owed", FAIR, "follows", STARTS),
    Trap("last_slots_are_left", FAIR, "a", STAGES),
    Trap("left_only_by_who_has_one", VAIN, "nothing can start", STAGES),
    Trap("background_gives_way", FAIR, "low", BACKGROUND),
    Trap("counts_for_a_moment", VAIN, "nothing can start", BACKGROUND),
    Trap("owed_starts_do_not_count", VAIN, "crawl", CRAWL),
    Trap("a_settle_lets_more_start", VAIN, "is settled", BACKGROUND),
    Trap("nothing_starts_while_away", FAIR, "finds E away", ENDPOINT),
    Trap("one_run_first", FAIR, "E is back", ENDPOINT),
    Trap("of_all_its_queues", FAIR, "E is back", ENDPOINT),
    Trap("more_with_each_success", VAIN, "E is back", ENDPOINT),
    Trap("a_time_is_named", VAIN, "nothing can start", BACKGROUND),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = FairnessProtocol(kinds_by(rules), bounds)
    invariants = {
        FAIR: protocol.starts_are_fair,
        FULL: protocol.slots_are_not_exceeded,
        VAIN: protocol.nobody_waits_in_vain,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_each_start_is_due_and_nobody_waits_in_vain(case: str) -> None:
    """T4, P10, S18."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGER)
def test_each_start_is_due_and_nobody_waits_in_vain_in_larger_bounds(case: str) -> None:
    assert_sound(search(Rules(), LARGER[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_starts_are_unfair(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_fairness_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
