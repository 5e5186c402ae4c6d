"""The reactive protocol, searched: sound with every rule on, a check lost or run twice with one off."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from reactive_protocol import AT_REST, Budget, ReactiveProtocol, Rules, State, canonical
from traps import Trap, assert_sound, by_rule

SOUND = {
    "an advance": Budget(advances=1),
    "an advance and a rewind": Budget(advances=1, rewinds=1),
    "a release": Budget(releases=1),
    "a release that is taken back": Budget(releases=1, roll_backs=1),
    "a repair": Budget(repairs=1),
    "a rewind and a crash": Budget(rewinds=1, crashes=1),
}
SOUND_AND_LARGE = {
    "an advance and a failure": Budget(advances=1, failures=1),
    "an advance, a release and a crash": Budget(advances=1, releases=1, crashes=1),
    "an advance and a rewind": Budget(advances=1, rewinds=1),
    "an advance and a repair": Budget(advances=1, repairs=1),
    "an advance, a rewind and a crash": Budget(advances=1, rewinds=1, crashes=1),
    "two advances": Budget(advances=2),
}
TWICE = "nothing is run twice, and seen is what the check saw"
LOST = "no check is lost"
TRAPS = [
    Trap("compare_turn", TWICE, "writes its verdicts", Budget(advances=1)),
    Trap("offer_at_end", LOST, "takes its snapshot", Budget(advances=1)),
    Trap("offer_at_registration", LOST, "a release", Budget(releases=1), AT_REST),
    Trap("count_rewinds", LOST, "is moved back", Budget(advances=1, rewinds=1), AT_REST),
    Trap("lay_repairs_over", TWICE, "an operator", Budget(advances=1, repairs=1), AT_REST),
    Trap("record_the_check", TWICE, "advances", Budget(advances=1)),
    Trap("new_version_at_offer", LOST, "advances", Budget(advances=2), AT_REST),
    Trap("offer_for_products", LOST, "load succeeds", Budget()),
    Trap("leave_a_check", LOST, "finds the rows locked", Budget()),
    Trap("run_what_was_checked", TWICE, "a release", Budget(releases=1), AT_REST),
]


def search(
    rules: Rules, budget: Budget, start: State | None = None, *, max_seconds: float = 100.0
) -> Report:
    protocol = ReactiveProtocol(rules)
    return explore(
        canonical((start or State())._replace(budget=budget)),
        protocol.steps,
        protocol.invariants(),
        max_states=3_000_000,
        max_seconds=max_seconds,
    )


@pytest.mark.parametrize("budget", SOUND.values(), ids=SOUND)
def test_nothing_is_lost_with_every_rule_on(budget: Budget) -> None:
    """R7, R10: I1-I3 for two schedulers without leases."""
    assert_sound(search(Rules(), budget, AT_REST))


@pytest.mark.slow
@pytest.mark.timeout(
    3600
)  # the largest has 2,689,692 states: 450 s of CPU, on a busy machine three times that
@pytest.mark.parametrize("budget", SOUND_AND_LARGE.values(), ids=SOUND_AND_LARGE)
def test_nothing_is_lost_in_larger_bounds(budget: Budget) -> None:
    assert_sound(search(Rules(), budget, max_seconds=800))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_each_rule_is_needed(trap: Trap) -> None:
    trap.assert_caught(Rules(), search, trap.start)


def test_every_rule_has_a_trap() -> None:
    assert {trap.rule for trap in TRAPS} == {field.name for field in fields(Rules)}
