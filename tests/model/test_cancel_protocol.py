"""A cancel that undoes, searched: each step once, newest first, whatever dies where, with every rule on."""

from dataclasses import fields

import pytest
from cancel_protocol import Bounds, CancelProtocol, Rules
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule

BOOKED = "nothing stays booked"
ONCE = "each is undone once"
ORDER = "newest first"
HANDLER = "no handler after a cancel"
ENDS = "it ends"

SOUND = {
    "two cancels and deaths": Bounds(cancels=2, deaths=2),
    "the scope fails, and undos do": Bounds(cancels=2, fails=2, deaths=1),
    "without a scope": Bounds(scope=False, cancels=2, fails=2, deaths=1),
    "a compensation of several steps": Bounds(undo_books=True, cancels=2, fails=2),
    "restarts": Bounds(cancels=1, fails=1, restarts=2),
    "restarts without a scope": Bounds(scope=False, cancels=1, fails=1, restarts=2),
    "given up by a second cancel": Bounds(cancels=2, fails=2, gives_up=True),
    "a child": Bounds(child=True, cancels=2, deaths=1),
}

TRAPS = [
    Trap("alone", ORDER, "the decision of a begins", Bounds(scope=False)),
    Trap("at_once", BOOKED, "the canceller dies", Bounds(deaths=1)),
    Trap("begun_is_undone", BOOKED, "a cancel", Bounds()),
    Trap("redone_is_undone", ORDER, "a restart from a", Bounds(scope=False, restarts=1)),
    Trap("newest_first", ORDER, "undo a runs", Bounds()),
    Trap("after_those_under_way", ORDER, "a look", Bounds(fails=1)),
    Trap("compensations_are_kept", ORDER, "a look", Bounds(fails=1)),
    Trap("their_steps_are_kept", ONCE, "v runs", Bounds(undo_books=True, fails=1)),
    Trap("undone_once", ONCE, "a look", Bounds(fails=1)),
    Trap("scopes_end", ONCE, "c fails", Bounds(fails=1)),
    Trap("refused_while_cancelling", ONCE, "a cancel", Bounds(cancels=2)),
    Trap("open_until_undone", BOOKED, "a cancel", Bounds()),
    Trap("given_up_stops_no_other", ENDS, "undo b is given up", Bounds(fails=1)),
    Trap("restart_waits", BOOKED, "a restart from a", Bounds(fails=1, restarts=1)),
    Trap("children_are_told", BOOKED, "a cancel", Bounds(child=True, deaths=1)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = CancelProtocol(rules, bounds)
    invariants = {
        BOOKED: protocol.nothing_stays_booked,
        ONCE: protocol.each_is_undone_once,
        ORDER: protocol.newest_first,
        HANDLER: protocol.no_handler_after_a_cancel,
        ENDS: protocol.it_ends,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_what_was_booked_is_undone_once_newest_first_or_told_of(case: str) -> None:
    """P15: a cancel with compensation, at any moment."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_cancel_fails(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_a_cancel_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
