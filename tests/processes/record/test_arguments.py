"""Arguments with holes come back as they were meant, whatever the user's values look like."""

from __future__ import annotations

from typing import Any

import msgspec
from deciders import Given, application, record
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.processes.record.arguments import fill, kind_of, read_holes, with_error
from mainspring.processes.record.builtin import decide
from mainspring.processes.record.decision import Decision
from mainspring.tasks.declare.promise import Failure, Outcome, Promise

app = application()


@app.task
def source() -> Any: ...


@app.task
def takes(first: Any, second: Any = None) -> Any: ...


@app.task
def catches(one: Outcome[int], many: list[Outcome[int]]) -> Any: ...


@app.task
def holds(handle: Promise[int], many: list[Promise[int]]) -> Any: ...


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53)
    | st.text(max_size=8).filter(lambda t: "\x00" not in t)
    | st.sampled_from(["@", "value:0", "0123456789abcdef01:value:0", '"@":"0123456789abcdef01"']),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["@", "as", "of", "x"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def test_the_type_of_a_parameter_says_how_a_promise_arrives() -> None:
    assert [kind_of(t) for t in (int, list[int], Any)] == ["value"] * 3
    assert [kind_of(t) for t in (Outcome[int], list[Outcome[int]], Outcome)] == ["outcome"] * 3
    assert [kind_of(t) for t in (Promise[int], dict[str, Promise[int]])] == ["handle"] * 2


@settings(max_examples=150, deadline=None)
@given(json_values, json_values)
def test_values_and_plain_arguments_come_back_as_they_were(plain: Any, value: Any) -> None:
    """P1: no user's value is ever taken for a promise, at any depth."""

    def decider() -> None:
        promise = source()
        takes({"deep": [promise, plain], "again": promise}, plain)

    child = record(decider).children[1]
    result = msgspec.json.encode(value).decode()

    filled = msgspec.json.decode(fill(child.args, [Given(result=result)]))

    assert filled == {"first": {"deep": [value, plain], "again": value}, "second": plain}


def test_a_text_that_was_stored_as_jsonb_can_still_be_filled() -> None:
    """jsonb orders keys and adds spaces; a parameter of one letter must not come before the mark."""

    @app.task(name="letters")
    def letters(a: int, B: int, _: int) -> None: ...

    child = record(lambda: letters(source(), 2, 3)).children[1]
    stored = msgspec.json.decode(child.args)
    spaced = ", ".join(
        f"{msgspec.json.encode(k).decode()}: {msgspec.json.encode(stored[k]).decode()}"
        for k in sorted(stored, key=lambda k: (len(k), k.encode()))
    )

    filled = fill("{" + spaced + "}", [Given(result="1")])

    assert msgspec.json.decode(filled) == {"a": 1, "B": 2, "_": 3}


def test_outcomes_and_handles_arrive_as_such() -> None:
    def decider() -> None:
        a, b = source(), source()
        catches(a, [a, b])
        holds(a, [b])

    caught, held = record(decider).children[2:]
    inputs = [Given("pa", result="1"), Given("pb", outcome="err", error=Failure("E", "lost"))]

    arguments = catches.signature.decode(fill(caught.args, inputs))
    handles = holds.signature.decode(fill(held.args, inputs))

    assert arguments == {
        "one": Outcome(1),
        "many": [Outcome(1), Outcome(failure=Failure("E", "lost"))],
    }
    assert handles["handle"].ref == "pa"
    assert handles["many"][0].ref == "pb"


def test_a_plain_value_for_an_outcome_is_an_outcome() -> None:
    child = record(lambda: catches(3, [])).children[0]  # type: ignore[arg-type]

    assert catches.signature.decode(fill(child.args, []))["one"] == Outcome(3)


def test_a_handler_gets_the_failure() -> None:
    word = "0123456789abcdef01"
    args = f'{{"@":"{word}","why":"{word}:error:0","n":1}}'

    done = with_error(args, Failure("E", 'a "quoted" text'))

    assert msgspec.json.decode(fill(done, [])) == {
        "why": {"type": "E", "message": 'a "quoted" text'},
        "n": 1,
    }
    assert read_holes(done) == []


def test_built_in_deciders_follow_from_their_inputs() -> None:
    one, two = Given(result="[1,2]"), Given(result="[]")
    lost = Given(kind="outcome", outcome="err", error=Failure("E", "m"))

    assert decide("@gather", '{"of":[1,0,1]}', [one, two]).result == "[[],[1,2],[]]"
    assert decide("@concat", '{"of":[0,1,0]}', [one, two]).result == "[1,2,1,2]"
    assert decide("@concat", "{}", []).result == "[]"
    assert decide("@leave", '{"of":[0]}', [one]).result == "[1,2]"
    assert decide("@leave", "{}", []) == Decision()
    assert decide("@pass_on", "{}", [one]) == Decision(result="[1,2]")
    assert decide("@pass_on", "{}", [lost]) == Decision(error=Failure("E", "m"))
    assert (
        decide("@gather", '{"of":[0]}', [lost]).result == '[{"failure":{"type":"E","message":"m"}}]'
    )
