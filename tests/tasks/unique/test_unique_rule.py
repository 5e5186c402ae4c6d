"""What a call comes to whose key is taken: each policy, in each state of the one that has it (T13)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from keyed import PARKED, RETRY, Keyed, call
from visits import Visits


@pytest.fixture
def keyed(visits: Visits, me: UUID) -> Keyed:
    return Keyed(visits, me)


class TestAgain:
    """The default: nothing that was asked is swallowed."""

    def test_a_call_that_comes_during_a_run_has_one_of_its_own_after_it(self, keyed: Keyed) -> None:
        """T13: with its own id, arguments and result."""
        first = keyed.call(n=1)
        run = keyed.begin()

        second = keyed.call(n=2)
        assert second.outcome == "after"
        assert (keyed.waits, keyed.waits_behind) == (1, 2)
        assert (keyed.result(first.id), keyed.result(second.id)) == ("running", "waiting")
        keyed.end(run)

        assert (keyed.waits, keyed.waits_behind) == (2, None)
        assert keyed.run() == second.id
        assert keyed.ends() == [("done", 1), ("done", 2)]
        assert (keyed.result(first.id), keyed.result(second.id)) == ("done", "done")

    def test_those_after_it_meet_the_one_that_waits(self, keyed: Keyed) -> None:
        """T13: it begins after the last of them was committed."""
        keyed.call(n=1)
        keyed.begin()
        second = keyed.call(n=2)

        assert keyed.call(n=3) == (second.id, "existing")
        assert keyed.waits_behind == 2

    def test_nobody_runs_beside_the_first(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        keyed.begin()
        keyed.call(n=2)

        assert keyed.visits.read(keyed.worker) == []

    def test_one_that_waits_is_met_and_offered_again(self, keyed: Keyed) -> None:
        """S23: a new version, so a run of it that was lost does not count when it settles late."""
        first = keyed.call(n=1)
        lost = keyed.begin()
        keyed.visits.declare_dead(keyed.worker)
        heir = keyed.visits.join()
        keyed.visits.take(heir)
        keyed.visits.recover()

        assert keyed.call(n=2) == (first.id, "existing")
        assert keyed.end(lost) == "superseded"
        keyed.worker = heir
        assert keyed.run() == first.id

    def test_a_backoff_is_no_run(self, keyed: Keyed) -> None:
        first = keyed.call(n=1)
        keyed.run(RETRY)

        assert keyed.call(n=2) == (first.id, "existing")
        assert keyed.row["due_at"] > keyed.visits.now()  # and no call shortens it

    def test_what_waits_stays_behind_a_backoff(self, keyed: Keyed) -> None:
        """T13: it runs after the first has ended, not between its attempts."""
        keyed.call(n=1)
        run = keyed.begin()
        second = keyed.call(n=2)
        keyed.end(run, RETRY)

        assert (keyed.waits, keyed.waits_behind) == (1, 2)
        assert keyed.call(n=3) == (second.id, "existing")

    def test_what_waits_takes_the_place_of_what_is_parked(self, keyed: Keyed) -> None:
        """T13: and the parked one is told to whoever waits for it, and can be put back."""
        first = keyed.call(n=1)
        run = keyed.begin()
        second = keyed.call(n=2)
        keyed.end(run, PARKED)

        assert keyed.row["parked_at"] is None
        assert keyed.row["attempt"] == 0
        assert keyed.ends() == [("parked", 1), ("cancelled", 1)]
        assert keyed.result(first.id) == "cancelled"
        assert keyed.run() == second.id

    def test_what_waits_takes_the_place_of_what_its_worker_died_of(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        keyed.visits.change("k", crashes=2)
        keyed.begin()
        second = keyed.call(n=2)
        keyed.visits.declare_dead(keyed.worker)
        keyed.worker = keyed.visits.join()
        keyed.visits.take(keyed.worker)

        assert [row["parked"] for row in keyed.visits.recover()] == [True]
        assert keyed.ends() == [("cancelled", 1)]
        assert keyed.run() == second.id

    def test_the_first_keeps_its_arguments_when_its_worker_dies(self, keyed: Keyed) -> None:
        first = keyed.call(n=1)
        keyed.begin()
        keyed.call(n=2)
        keyed.visits.declare_dead(keyed.worker)
        keyed.worker = keyed.visits.join()
        keyed.visits.take(keyed.worker)
        keyed.visits.recover()

        assert (keyed.waits, keyed.waits_behind) == (1, 2)
        assert keyed.run() == first.id
        assert keyed.waits == 2

    def test_what_waits_stays_when_the_first_is_cancelled(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        run = keyed.begin()
        second = keyed.call(n=2)
        keyed.end(run, RETRY)
        row = keyed.row
        keyed.visits.call(
            "cancel_visits", shards=[row["shard"]], keys=["k"], queues=[row["queue"]],
            reason="no", parked_only=False,
        )  # fmt: skip

        assert keyed.run() == second.id

    def test_what_waits_runs_at_its_own_time(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        run = keyed.begin()
        keyed.call(n=2, delay=60, priority=8)
        keyed.end(run)

        row = keyed.row
        assert row["priority"] == 8
        assert row["due_at"] > keyed.visits.now() + timedelta(seconds=50)

    def test_what_has_expired_is_nothing_to_meet(self, keyed: Keyed) -> None:
        """T13: a call that will never run swallows no other."""
        first = keyed.call(n=1)
        keyed.visits.change("k", expires_at=keyed.visits.now() - timedelta(seconds=1))

        second = keyed.call(n=2)

        assert second.outcome == "new"
        assert keyed.waits == 2
        assert keyed.result(first.id) == "expired"


class TestParked:
    def test_a_call_takes_the_place_of_a_parked_one(self, keyed: Keyed) -> None:
        """T13: one failure does not swallow every later call."""
        first = keyed.call(n=1)
        keyed.run(PARKED)

        second = keyed.call(n=2)

        assert second.outcome == "restarted"
        assert second.id != first.id
        assert keyed.result(first.id) == "cancelled"
        assert "gave way to call" in keyed.visits.history("k")[-1]["error"]
        assert keyed.run() == second.id

    def test_or_is_told_of_it(self, keyed: Keyed) -> None:
        first = keyed.call(n=1)
        keyed.run(PARKED)

        assert keyed.call(n=2, on_parked="return") == (first.id, "parked")
        assert keyed.row["parked_at"] is not None

    def test_or_is_refused(self, keyed: Keyed) -> None:
        first = keyed.call(n=1)
        keyed.run(PARKED)

        assert keyed.call(n=2, on_parked="reject") == (first.id, "rejected")
        assert keyed.waits == 1


class TestOtherPolicies:
    @pytest.mark.parametrize(
        ("policy", "waiting", "running"),
        [
            ("again", ("existing", 1), ("after", 1)),
            ("existing", ("existing", 1), ("existing", 1)),
            ("reject", ("rejected", 1), ("rejected", 1)),
            ("replace", ("replaced", 2), ("after", 1)),
            ("debounce", ("debounced", 2), ("after", 1)),
            ("keep_earliest", ("existing", 1), ("after", 1)),
        ],
    )
    def test_each_has_its_answer(self, keyed: Keyed, policy, waiting, running) -> None:
        """T13."""
        keyed.call(n=1)
        told = keyed.call(n=2, policy=policy, delay=0)
        assert (told.outcome, keyed.waits) == waiting

        self._begin_now(keyed)
        keyed.visits.change("k", payload='{"n": 1}')
        told = keyed.call(n=2, policy=policy, delay=0)
        assert (told.outcome, keyed.waits) == running

    def _begin_now(self, keyed: Keyed) -> None:
        keyed.visits.change("k", due_at=keyed.visits.now() - timedelta(seconds=1))
        keyed.begin()

    def test_replaced_are_arguments_time_and_priority(self, keyed: Keyed) -> None:
        first = keyed.call(n=1, delay=100, priority=3)

        assert keyed.call(n=2, policy="replace", priority=7) == (first.id, "replaced")
        assert (keyed.waits, keyed.row["priority"]) == (2, 7)
        assert keyed.row["due_at"] <= keyed.visits.now()

    def test_what_was_read_before_it_was_replaced_is_not_run(self, keyed: Keyed) -> None:
        """T13: whoever had read the old arguments cannot hold it."""
        keyed.call(n=1)
        [read] = keyed.visits.read(keyed.worker)
        keyed.call(n=2, policy="replace")

        assert keyed.visits.hold(keyed.worker, keyed.visits.start(read)) == set()

    def test_a_replaced_retry_keeps_its_backoff(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        keyed.run(RETRY)
        due = keyed.row["due_at"]

        keyed.call(n=2, policy="replace")

        assert (keyed.waits, keyed.row["due_at"], keyed.row["attempt"]) == (2, due, 1)

    def test_what_waits_behind_a_run_is_replaced_there(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        run = keyed.begin()
        second = keyed.call(n=2)

        assert keyed.call(n=3, policy="replace") == (second.id, "replaced")
        keyed.end(run)
        assert keyed.waits == 3
        assert keyed.run() == second.id

    def test_debounced_calls_are_put_off(self, keyed: Keyed) -> None:
        keyed.call(n=1, policy="debounce", delay=10)
        first = keyed.row["due_at"]

        told = keyed.call(n=2, policy="debounce", delay=20)

        assert told.outcome == "debounced"
        assert keyed.row["due_at"] > first
        assert keyed.waits == 2

    def test_but_not_for_ever(self, keyed: Keyed) -> None:
        keyed.call(n=1, policy="debounce", delay=10, debounce_max=15.0)
        made = keyed.row["created_at"]

        keyed.call(n=2, policy="debounce", delay=20, debounce_max=15.0)

        assert keyed.row["due_at"] == made + timedelta(seconds=15)

    def test_the_earlier_call_counts(self, keyed: Keyed) -> None:
        first = keyed.call(n=1, delay=100)

        assert keyed.call(n=2, policy="keep_earliest", delay=200) == (first.id, "existing")
        assert keyed.call(n=3, policy="keep_earliest", delay=50) == (first.id, "replaced")
        assert keyed.waits == 3

    def test_what_was_done_lately_is_returned(self, keyed: Keyed) -> None:
        first = keyed.call(n=1)
        keyed.run()

        assert keyed.call(n=2, done_within=60.0) == (first.id, "done")
        assert keyed.call(n=2, done_within=60.0, policy="reject") == (first.id, "rejected")
        assert keyed.row is None
        keyed.visits.query(
            "update mainspring.history_run set ended_at = ended_at - interval '1 hour'"
        )
        assert keyed.call(n=2, done_within=60.0).outcome == "new"

    def test_what_failed_lately_is_not(self, keyed: Keyed) -> None:
        keyed.call(n=1)
        keyed.run(PARKED)

        assert keyed.call(n=2, done_within=60.0).outcome == "restarted"


class TestByArguments:
    def test_calls_are_unique_by_the_values_of_some(self, visits: Visits, me: UUID) -> None:
        """T13."""
        first = call(visits.connection, None, 1, by=["n"])
        again = call(visits.connection, None, 1, by=["n"])
        other = call(visits.connection, None, 2, by=["n"])

        assert again == (first.id, "existing")
        assert other.outcome == "new"

    def test_bad_ways_are_refused(self, visits: Visits) -> None:
        for how, text in (
            ({"policy": "agian"}, "policy must be again, existing,"),
            ({"on_parked": "x"}, "on_parked must be restart, return or reject"),
            ({"done_within": 0.0}, "must be more than 0 seconds"),
        ):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match=text):
                call(visits.connection, "k", **how)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="neither by a key nor"):
            call(visits.connection, None)
