"""The process protocol, searched: sound with every rule on, broken with one off."""

from dataclasses import dataclass, fields, replace

import pytest
from explorer import Report, explore
from process_oracle import Rules
from process_protocol import ProcessProtocol
from process_state import Budget, Child, Make, Program, State
from traps import assert_sound

PASS: Program = {"pass on": "pass on"}
FAN_IN: Program = {
    "root": Make((Child("a"), Child("b"), Child("join", (("a", "value"), ("b", "value")))), "join"),
    "a": "value",
    "b": "value",
    "join": "value",
}
SIDE: Program = {
    "root": Make((Child("last"), Child("side")), "last"),
    "last": "value",
    "side": "value",
}
HANDLE: Program = {
    "root": Make((Child("p"), Child("d", (("p", "handle"),))), "d"),
    "p": "value",
    "d": Make((Child("c", (("given 0", "value"),)),), "c"),
    "c": "value",
}
RETURNED: Program = {
    "root": Make((Child("p"), Child("d", (("p", "handle"),))), "d"),
    "p": "value",
    "d": Make((), "given 0"),
    **PASS,
}
TAIL: Program = {
    "root": Make((Child("d"), Child("e", (("d", "value"),))), "e"),
    "d": Make((Child("w"),), "w"),
    "w": "value",
    "e": "value",
}
SIGNAL: Program = {
    "root": Make((Child("wait"), Child("last", (("wait", "value"),))), "last"),
    "wait": "signal",
    "last": "value",
}
RACE: Program = {
    "root": Make(
        (Child("a"), Child("b"), Child("first", (("a", "outcome"), ("b", "outcome")))), "first"
    ),
    "a": "value",
    "b": "value",
    "first": "first_of",
}
CAUGHT: Program = {
    "root": Make(
        (
            Child("broken"),
            Child("middle", (("broken", "value"),)),
            Child("linker", (("middle", "handle"),)),
        ),
        "linker",
    ),
    "broken": "fail",
    "middle": "value",
    "linker": Make((Child("catch", (("given 0", "outcome"),)),), "catch"),
    "catch": "value",
}
LOOP: Program = {
    "root": Make((Child("a"), Child("b", (("a", "value"),))), "b"),
    "a": "value",
    "b": Make((Child("c", (("given 0", "value"),)),), "c"),
    "c": "value",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A program within bounds."""

    program: Program
    budget: Budget
    accept: str = "first"
    rule: str = ""
    breaks: str = ""


SOUND = {
    "fan-in, a late and a repeated answer": Case(FAN_IN, Budget(timeouts=1, repeats=1)),
    "fan-in in batches": Case(FAN_IN, Budget(batches=1)),
    "fan-in, the last pass counts": Case(FAN_IN, Budget(timeouts=1), "last"),
    "a branch beside the root": Case(SIDE, Budget(timeouts=1)),
    "a handle that is linked while it closes": Case(HANDLE, Budget(batches=1, timeouts=1)),
    "a handle that is returned": Case(RETURNED, Budget(batches=1)),
    "a tail call, restarted": Case(TAIL, Budget(restarts=1)),
    "a signal and a restart": Case(SIGNAL, Budget(signals=1, restarts=1)),
    "a race": Case(RACE, Budget(timeouts=1)),
    "an error caught late": Case(CAUGHT, Budget(batches=1)),
    "cancelled anywhere": Case(HANDLE, Budget(cancels=1)),
    "a worker that dies": Case(TAIL, Budget(deaths=1)),
    "pruned and restarted": Case(LOOP, Budget(prunes=1, restarts=1)),
}
SOUND_AND_LARGE = {
    "a branch, restarted under a late answer": Case(SIDE, Budget(restarts=1, timeouts=1)),
    "a tail call, restarted under a late answer": Case(TAIL, Budget(restarts=1, timeouts=1)),
    "a fan-in, restarted": Case(FAN_IN, Budget(restarts=1)),
    "an error caught late, restarted": Case(CAUGHT, Budget(restarts=1)),
}
TWICE = "nothing is decided twice or out of turn"
WHOLE = "every commit keeps the process whole"
LOST = "no wakeup is lost"
TRAPS = [
    Case(HANDLE, Budget(), rule="look_for_edges_later", breaks=WHOLE),
    Case(HANDLE, Budget(), rule="link_under_lock", breaks=WHOLE),
    Case(HANDLE, Budget(batches=1), rule="insert_before_close", breaks=WHOLE),
    Case(RACE, Budget(), rule="release_at_zero_once", breaks=TWICE),
    Case(TAIL, Budget(restarts=1), rule="settle_by_token", breaks=TWICE),
    Case(TAIL, Budget(restarts=1), rule="fresh_token_at_restart", breaks=TWICE),
    Case(SIDE, Budget(timeouts=1), "last", rule="new_version_for_last", breaks=TWICE),
    Case(TAIL, Budget(restarts=1), rule="wait_for_decisions", breaks=WHOLE),
    Case(TAIL, Budget(restarts=1), rule="cone_by_promise", breaks=WHOLE),
    Case(TAIL, Budget(restarts=1), rule="reopen_inherited", breaks=WHOLE),
    Case(TAIL, Budget(restarts=1), rule="supersede_children", breaks=WHOLE),
    Case(SIDE, Budget(), rule="remember_root", breaks=LOST),
    Case(SIDE, Budget(), rule="end_waits", breaks=LOST),
    Case(CAUGHT, Budget(), rule="look_at_parking", breaks=LOST),
    Case(SIGNAL, Budget(signals=1), rule="both_sides_look", breaks=LOST),
    Case(RETURNED, Budget(), rule="pass_on_closed", breaks=WHOLE),
    Case(LOOP, Budget(prunes=1), rule="keep_needed", breaks=WHOLE),
]


def search(rules: Rules, case: Case, *, max_seconds: float = 60.0) -> Report:
    protocol = ProcessProtocol(rules, case.program, accept=case.accept)
    return explore(
        State(budget=case.budget),
        protocol.steps,
        protocol.invariants(),
        max_states=3_000_000,
        max_seconds=max_seconds,
    )


@pytest.mark.parametrize("case", SOUND.values(), ids=SOUND)
def test_a_process_stays_whole_with_every_rule_on(case: Case) -> None:
    """P1, P7, P13: I1-I4, I7, I8, I11, I12 after every commit, and no wakeup is lost."""
    assert_sound(search(Rules(), case))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", SOUND_AND_LARGE.values(), ids=SOUND_AND_LARGE)
def test_a_process_stays_whole_in_larger_bounds(case: Case) -> None:
    assert_sound(search(Rules(), case, max_seconds=800))


@pytest.mark.parametrize("case", TRAPS, ids=[case.rule for case in TRAPS])
def test_each_rule_of_processes_is_needed(case: Case) -> None:
    report = search(replace(Rules(), **{case.rule: False}), case)

    assert report.violation is not None, report
    assert report.violation.startswith(f"{case.breaks}: "), report


def test_every_rule_of_processes_has_a_trap() -> None:
    assert {case.rule for case in TRAPS} == {field.name for field in fields(Rules)}
