"""Retry: from a policy, an attempt and an exception to an outcome. Pure rules (T13)."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mainspring
from mainspring import RetryPolicy
from mainspring.errors import InvalidSetting
from mainspring.failure_text import ERROR_BYTES, FRAMES_KEPT, _frames, clean_text, describe
from mainspring.kernel.outcome import Parked, Retry
from mainspring.kernel.retry import judge


def test_a_failure_is_retried_by_default() -> None:
    outcome = judge(RetryPolicy(), failures=1, error=ValueError("no"))

    assert isinstance(outcome, Retry)
    assert outcome.error_type == "ValueError"


def test_the_last_attempt_parks() -> None:
    policy = RetryPolicy(attempts=3)

    assert isinstance(judge(policy, failures=2, error=ValueError()), Retry)
    assert isinstance(judge(policy, failures=3, error=ValueError()), Parked)


def test_delays_double_up_to_the_most_and_have_jitter() -> None:
    policy = RetryPolicy(first=1, factor=2, most=60)

    for failures, full in ((1, 1), (2, 2), (3, 4), (7, 60), (1000, 60)):
        delays = [policy.delay(failures) for _ in range(100)]
        assert min(delays) >= full / 2
        assert max(delays) <= full
        assert len(set(delays)) > 1


def test_what_is_given_up_on_parks_at_once() -> None:
    policy = RetryPolicy(give_up_on=(ValueError,))

    assert isinstance(judge(policy, failures=1, error=UnicodeError()), Parked)
    assert isinstance(judge(policy, failures=1, error=KeyError()), Retry)


def test_only_what_is_named_is_retried() -> None:
    policy = RetryPolicy(only_on=(OSError,))

    assert isinstance(judge(policy, failures=1, error=TimeoutError()), Retry)
    assert isinstance(judge(policy, failures=1, error=ValueError()), Parked)


def test_an_exception_has_the_policy_of_its_nearest_class() -> None:
    policy = RetryPolicy(
        attempts=10,
        per_exception={
            OSError: RetryPolicy(attempts=5),
            ConnectionError: RetryPolicy(attempts=2),
        },
    )

    assert isinstance(judge(policy, failures=2, error=ConnectionResetError()), Parked)
    assert isinstance(judge(policy, failures=4, error=FileNotFoundError()), Retry)
    assert isinstance(judge(policy, failures=5, error=FileNotFoundError()), Parked)
    assert isinstance(judge(policy, failures=9, error=ValueError()), Retry)


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": 0},
        {"attempts": 10**7},
        {"first": -1},
        {"first": 10, "most": 5},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"factor": 1e10},
        {"most": float("nan")},
        {"most": float("inf")},
        {"most": 1e300},
    ],
)
def test_settings_out_of_range_are_refused_and_named(settings) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        RetryPolicy(**settings)


def test_the_longest_delay_is_one_that_can_be_added_to_a_time() -> None:
    policy = RetryPolicy(attempts=1_000_000, first=1.0, factor=1000.0, most=315_360_000.0)

    assert policy.delay(1_000_000) <= 315_360_000


@pytest.mark.parametrize(
    "settings",
    [{"attempts": "3"}, {"attempts": 2.5}, {"first": "1"}, {"give_up_on": ("ValueError",)}],
)
def test_settings_of_another_type_are_refused_when_declared(settings) -> None:
    """Not in the worker, when the first failure comes."""
    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        RetryPolicy(**settings)


def test_a_text_of_50_megabytes_is_cut() -> None:
    _, text = describe(ValueError("x" * 50_000_000))

    assert len(text.encode()) <= ERROR_BYTES


def test_an_exception_that_cannot_be_printed_is_described_all_the_same() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    name, text = describe(Broken())

    assert name.endswith("Broken")
    assert "RuntimeError" in text


def test_a_traceback_is_part_of_the_text() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        _, text = describe(error)

    assert "test_retry.py" in text


def failure_in(path: str, line: int = 1, name: str = "fail") -> str:
    """How a failure of the same function is described, at this line of this file."""
    found: dict[str, Any] = {}
    exec(compile("\n" * (line - 1) + f"def {name}(): raise ValueError('no')", path, "exec"), found)
    with pytest.raises(ValueError, match="no") as failed:
        found[name]()
    return describe(failed.value)[1]


def test_a_traceback_that_came_before_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """T13: failures come in thousands, from one place; each has its own first line."""
    made: list[object] = []
    monkeypatch.setattr(traceback, "format_tb", lambda *_, **__: made.append(1) or ["frames"])

    def fail(number: int) -> str:
        try:
            raise ValueError(number)
        except ValueError as error:
            return describe(error)[1]

    assert [fail(n) for n in range(3)] == [f"ValueError: {n}\nframes" for n in range(3)]
    assert len(made) == 1


def test_a_traceback_is_of_its_own_file_line_and_function() -> None:
    """T13: though the like has failed in another before, or in the same before it was loaded again."""
    assert 'File "here.py", line 1, in fail' in failure_in("here.py")
    assert 'File "there.py", line 1, in fail' in failure_in("there.py")
    assert 'File "there.py", line 2, in fail' in failure_in("there.py", line=2)
    assert 'File "there.py", line 2, in flop' in failure_in("there.py", line=2, name="flop")


def test_two_failures_of_one_line_are_told_apart() -> None:
    def fail(first: bool) -> str:
        try:
            [int("x"), 1] if first else [1, int("y")]
        except ValueError as error:
            return describe(error)[1]
        return ""

    assert fail(True).splitlines()[-1] != fail(False).splitlines()[-1]


def test_tracebacks_are_kept_up_to_a_number() -> None:
    for line in range(1, FRAMES_KEPT + 2):
        failure_in("long.py", line)

    assert len(_frames) <= FRAMES_KEPT


def test_a_deep_traceback_ends_where_it_failed() -> None:
    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        raise ValueError("no")

    for depth in (30, 3):
        with pytest.raises(ValueError, match="no") as failed:
            dive(depth)
        frames = traceback.format_tb(failed.value.__traceback__, limit=-8)
        assert describe(failed.value)[1] == f"ValueError: no\n{''.join(frames)}".rstrip()


@given(st.text(st.characters(), max_size=300), st.integers(100, 400))
def test_cleaned_text_can_always_be_stored(text: str, most: int) -> None:
    """Without NUL and lone surrogates, never longer than asked."""
    kept = clean_text(text, most)

    assert "\x00" not in kept
    assert len(kept.encode("utf-8")) <= most


def test_lone_surrogates_are_replaced() -> None:
    assert clean_text("a\ud800b\x00c", 100) == "a?b\N{REPLACEMENT CHARACTER}c"


def test_a_traceback_begins_in_the_user_s_code() -> None:
    """What calls it is the engine's, the same for all, and says nothing."""

    def users() -> None:
        raise KeyError("a")

    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(users).exception()
    assert error is not None
    _, text = describe(error)

    assert "thread.py" not in text
    assert "in users" in text


def test_a_package_whose_name_begins_like_the_engines_is_the_users() -> None:
    """T13: `mainspring_shop` lies beside `mainspring` when both are installed."""
    path = f"{Path(mainspring.__file__).parent}_shop/tasks.py"
    found: dict[str, Any] = {}
    exec(compile("import json\ndef charge():\n    json.loads('no')", path, "exec"), found)

    with pytest.raises(ValueError, match="Expecting value") as failed:
        found["charge"]()

    assert path in describe(failed.value.with_traceback(failed.value.__traceback__.tb_next))[1]


def test_a_group_of_exceptions_says_which_they_are() -> None:
    """T13: "1 sub-exception" alone helps nobody."""

    def reaches_nobody() -> None:
        raise ConnectionError("no route")

    try:
        reaches_nobody()
    except ConnectionError as error:
        inner = ExceptionGroup("of one", [error])

    name, text = describe(ExceptionGroup("unhandled errors in a TaskGroup", [inner, KeyError(7)]))

    assert name == "ExceptionGroup"
    assert text.splitlines()[0] == (
        "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions); "
        "ConnectionError: no route; KeyError: 7"
    )
    assert "in reaches_nobody" in text
