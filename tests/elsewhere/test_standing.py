"""The choices about a service, by themselves: what a failed call means, what may be sent, who is asked."""

from __future__ import annotations

import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from mainspring.entities.remote.items import Bad, matched
from mainspring.entities.remote.standing import AskRecord, Fate, Fault, Standing
from mainspring.stage_client.faults import fault_of, retry_info

FAULTS = [
    (StatusCode.UNAVAILABLE, "failed to connect to all addresses", False, False, Fault.AWAY),
    (StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", True, False, Fault.BROKE),
    (StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", True, True, Fault.BROKE),
    (StatusCode.UNAVAILABLE, "my database is away", True, True, Fault.SAID_AWAY),
    (StatusCode.CANCELLED, "RST_STREAM", True, True, Fault.BROKE),
    (StatusCode.UNAUTHENTICATED, "", True, True, Fault.AWAY),
    (StatusCode.PERMISSION_DENIED, "", True, True, Fault.AWAY),
    (StatusCode.UNIMPLEMENTED, "", True, True, Fault.AWAY),
    (StatusCode.DEADLINE_EXCEEDED, "", True, True, Fault.DEADLINE),
    (StatusCode.RESOURCE_EXHAUSTED, "quota", True, True, Fault.OVERLOADED),
    (StatusCode.ABORTED, "", True, True, Fault.OVERLOADED),
    *(
        (StatusCode.RESOURCE_EXHAUSTED, text, True, True, Fault.TOO_LARGE)
        for text in (
            "CLIENT: Received message larger than max (5 vs. 4)",
            "SERVER: Sent message larger than max (5 vs. 4)",
            "grpc: received message larger than max (5 vs. 4)",
        )
    ),
    *(
        (status, "", True, True, Fault.PERHAPS)
        for status in (
            *(StatusCode.UNKNOWN, StatusCode.INTERNAL, StatusCode.INVALID_ARGUMENT),
            *(StatusCode.OUT_OF_RANGE, StatusCode.DATA_LOSS, StatusCode.FAILED_PRECONDITION),
        )
    ),
]


@pytest.mark.parametrize(("status", "details", "was", "stands", "fault"), FAULTS)
def test_a_status_says_whose_fault_it_may_be(
    status: StatusCode, details: str, was: bool, stands: bool, fault: Fault
) -> None:
    """S10."""
    assert fault_of(status, details, was_ready=was, is_ready=stands) is fault


def test_five_deadlines_without_an_answer_are_a_service_that_hangs() -> None:
    """S10: an answer between them starts the count anew."""
    known = Standing()
    fates = [known.failed({n}, Fault.DEADLINE, alone=False) for n in range(4)]
    assert fates == [Fate.FAILED] * 4
    known.answered([9])
    fates = [known.failed({n}, Fault.DEADLINE, alone=False) for n in range(6)]
    assert fates == [Fate.FAILED] * 4 + [Fate.PUT_OFF] * 2
    assert known.hangs


def test_an_overloaded_service_has_fewer_calls_and_one_more_with_each_answer() -> None:
    """S10."""
    known = Standing()
    calls = []
    for _ in range(3):
        known.failed({1}, Fault.OVERLOADED, alone=False)
        calls.append(known.at_once)
    assert calls == [2, 1, 1]
    assert [known.rest(None), known.rest(None), known.rest(7.0)] == [1.0, 2.0, 7.0]
    for _ in range(4):
        known.answered([1])
        calls.append(known.at_once)
    assert calls[3:] == [2, 3, 4, 4]
    assert known.rest(None) == 1.0


def test_its_own_word_counts_only_when_others_were_answered_meanwhile() -> None:
    """S10: a service whose database is away parks nobody; one that an entity ends behind a proxy does."""
    known = Standing()
    assert known.failed({"p"}, Fault.SAID_AWAY, alone=False) is Fate.PUT_OFF
    assert known.failed({"p"}, Fault.SAID_AWAY, alone=True) is Fate.PUT_OFF
    known.answered(["a"])
    assert known.failed({"p"}, Fault.SAID_AWAY, alone=True) is Fate.CRASHED
    assert known.failed({"p"}, Fault.SAID_AWAY, alone=True) is Fate.PUT_OFF


def test_a_suspect_that_is_answered_or_fails_is_none_any_more() -> None:
    known = Standing()
    known.failed({1, 2}, Fault.BROKE, alone=False)
    known.answered([1])
    known.failed({2}, Fault.PERHAPS, alone=True)
    assert not known.is_suspect(1)
    assert not known.is_suspect(2)


def test_a_stage_whose_answers_are_bad_rests_and_one_question_is_the_trial() -> None:
    """S10: 20 bad of the last 100."""
    record = AskRecord()
    for n in range(99):
        assert record.may_ask(0.0)
        record.told(n % 5 != 0, 0.0)  # one of five is bad
        if not record.may_ask(0.0):
            break
    assert n == 95  # the twentieth that was bad
    assert not record.may_ask(4.9)
    assert record.may_ask(5.0)
    assert not record.may_ask(5.1)  # one is enough
    record.told(False, 6.0)
    assert not record.may_ask(10.9)
    assert record.may_ask(11.0)
    record.told(True, 11.0)
    assert record.may_ask(11.0)


def test_answers_are_found_by_their_ids_and_never_by_their_places() -> None:
    """S10."""
    answers = matched(["a", "b", "c", "d"], [("d", 4), ("a", 1), ("x", 9), ("c", 3), ("c", 5)])
    assert (answers[0], answers[3]) == (1, 4)
    assert [type(answer) for answer in answers[1:3]] == [Bad, Bad]
    assert "answered about 'x'" in answers[1].why


def test_how_long_to_leave_a_service_alone_is_read_from_its_status() -> None:
    """S10: google.rpc.RetryInfo, whatever stands beside it."""
    status = status_pb2.Status(code=8, message="later")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="busy", domain="shop"))
    assert retry_info(status.SerializeToString()) is None
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(7500)
    status.details.add().Pack(info)
    assert retry_info(status.SerializeToString()) == 7.5
    assert retry_info(b"google.rpc.RetryInfo") is None
