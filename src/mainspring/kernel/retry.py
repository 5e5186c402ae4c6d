"""What a failure leads to: pure rules from a policy, an attempt and an exception to an outcome."""

from __future__ import annotations

from asyncio import CancelledError
from datetime import UTC, datetime

from mainspring import clock
from mainspring.errors import RetryAfter, UnknownCipherKey
from mainspring.failure_text import describe
from mainspring.kernel.outcome import Cancelled, Done, Outcome, Parked, Postponed, Retry
from mainspring.kernel.visit import Respite, Run, instant
from mainspring.retry_policy import RetryPolicy

CANCELLED = Cancelled(error="cancelled while it ran")


def judge(policy: RetryPolicy, *, failures: int, error: BaseException) -> Outcome:
    """What the failure number `failures` of a visit leads to."""
    policy = policy.applying_to(error)
    name, text = describe(error)
    final = isinstance(error, (UnknownCipherKey, *policy.give_up_on)) or (
        policy.only_on is not None and not isinstance(error, tuple(policy.only_on))
    )
    if final or failures >= policy.attempts:
        return Parked(error_type=name, error=text)
    asked = error.seconds(datetime.now(UTC)) if isinstance(error, RetryAfter) else None
    after = policy.delay(failures) if asked is None else asked
    return Retry(after=after, error_type=name, error=text)


def told_to_end(run: Run, outcome: Outcome) -> Outcome:
    """What a run comes to that has returned: one that was cancelled before may return what it likes."""
    return CANCELLED if run.stopped == "cancelled" and not run.settled else outcome


def outcome_of_error(run: Run, error: BaseException, *, is_closing: bool = False) -> Outcome | None:
    """What the exception of a run leads to: its handler's own failure, or a stop from outside. None: the
    run counts for nothing, as when it is cancelled while its worker stops."""
    if run.settled:
        return Done()  # by a transaction of its own: what came after changes nothing
    if run.stopped in ("fenced", "stopping", "gone"):
        return None
    if is_closing and run.stopped is None and isinstance(error, CancelledError):
        return None
    if run.stopped == "cancelled":
        return CANCELLED
    if run.stopped == "timeout":
        error = TimeoutError(f"ran longer than its timeout of {run.settings.timeout:g} s")
    breaker = run.settings.breaker
    if breaker is not None and not breaker.counts(error):
        run.spare()
    if isinstance(error, RetryAfter):
        now = instant(run.started + clock.local() - run.began)
        if error.pauses is not None:
            run.respite(Respite(error.seconds(now), error.pauses, describe(error)[1]))
    if isinstance(error, RetryAfter) and not error.counts:
        return Postponed(after=error.seconds(now), error=describe(error)[1])
    return judge(run.settings.retry, failures=run.visit.attempt + 1, error=error)
