"""Many callers, one statement: nobody loses what is another's, whatever happens to the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.db.batcher import AfterFailure, Batcher


class Doubling:
    """Serves numbers by doubling them, and notes which came together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []  # of the next batches
        self.refused: set[int] = set()

    async def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        if self.refused & set(items):
            raise ValueError("refused")
        return [2 * item for item in items]


async def test_what_is_asked_in_the_same_moment_is_one_batch() -> None:
    serve = Doubling()
    double = Batcher(serve)
    assert await asyncio.gather(*map(double, range(5))) == [0, 2, 4, 6, 8]
    assert serve.batches == [[0, 1, 2, 3, 4]]


async def test_those_who_ask_one_a_turn_of_the_loop_are_one_batch() -> None:
    """As the runs of a page do: the first alone would have all others wait for a batch of its own."""
    serve = Doubling()
    double = Batcher(serve)

    async def ask(n: int) -> int:
        following = asyncio.create_task(ask(n - 1)) if n else None
        answer = await double(n)
        return answer + (await following if following else 0)

    assert await ask(9) == 2 * sum(range(10))
    assert serve.batches == [[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]


async def test_a_batch_has_no_more_than_it_may_and_keeps_the_order() -> None:
    serve = Doubling()
    double = Batcher(serve, most=2)
    assert await asyncio.gather(*map(double, range(5))) == [0, 2, 4, 6, 8]
    assert serve.batches == [[0, 1], [2, 3], [4]]


async def test_the_next_batch_gathers_while_one_is_served() -> None:
    serve = Doubling()
    double = Batcher(serve)
    serve.gate.clear()
    first = asyncio.create_task(double(1))
    await _until(lambda: serve.batches == [[1]])
    rest = [asyncio.create_task(double(n)) for n in (2, 3)]
    await asyncio.sleep(0)
    serve.gate.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6]
    assert serve.batches == [[1], [2, 3]]


async def test_who_was_answered_and_asks_again_comes_with_those_that_wait() -> None:
    serve = Doubling()
    double = Batcher(serve, most=1)

    async def twice(n: int) -> int:
        return await double(await double(n))

    assert await asyncio.gather(twice(1), double(10)) == [4, 20]
    assert serve.batches == [[1], [10], [2]]


async def test_a_cancelled_caller_takes_nothing_from_the_others() -> None:
    serve = Doubling()
    double = Batcher(serve)
    serve.gate.clear()
    served = [asyncio.create_task(double(n)) for n in (1, 2)]
    await _until(lambda: serve.batches == [[1, 2]])
    waiting = [asyncio.create_task(double(n)) for n in (3, 4)]
    await asyncio.sleep(0)
    served[0].cancel()
    waiting[0].cancel()
    serve.gate.set()
    found = await asyncio.gather(*served, *waiting, return_exceptions=True)
    assert [type(found[0]), found[1], type(found[2]), found[3]] == [
        asyncio.CancelledError,
        4,
        asyncio.CancelledError,
        8,
    ]
    assert serve.batches == [[1, 2], [4]], "what nobody waits for is not asked"


async def test_an_error_reaches_every_caller_of_its_batch_and_no_other() -> None:
    serve = Doubling()
    double = Batcher(serve, most=2)
    serve.errors.append(OSError("away"))
    found = await asyncio.gather(*map(double, range(3)), return_exceptions=True)
    assert [repr(one) for one in found] == ["OSError('away')", "OSError('away')", "4"]


async def test_a_refused_batch_is_halved_until_what_is_refused_is_alone() -> None:
    serve = Doubling()

    async def halve(error: Exception) -> AfterFailure:
        return AfterFailure.HALVE

    double = Batcher(serve, failed=halve)
    serve.refused = {3}
    found = await asyncio.gather(*map(double, range(5)), return_exceptions=True)
    assert [repr(one) for one in found] == ["0", "2", "4", "ValueError('refused')", "8"]
    assert serve.batches == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4], [3], [4]]


async def test_an_outage_is_waited_for_by_the_rule_that_it_is_given() -> None:
    serve = Doubling()
    waits = asyncio.Event()

    async def again(error: Exception) -> AfterFailure:
        await waits.wait()
        return AfterFailure.AGAIN

    double = Batcher(serve, failed=again)
    serve.errors += [OSError(), OSError()]
    asking = [asyncio.create_task(double(n)) for n in (1, 2)]
    await _until(lambda: len(serve.batches) == 1)
    asking[0].cancel()
    waits.set()
    assert await asking[1] == 4
    assert serve.batches == [[1, 2], [2], [2]], "who was cancelled meanwhile is not asked for"


async def test_closing_cancels_who_waits_and_the_next_is_served() -> None:
    serve = Doubling()
    double = Batcher(serve, most=1)
    serve.gate.clear()
    asking = [asyncio.create_task(double(n)) for n in (1, 2)]
    await _until(lambda: serve.batches == [[1]])
    await double.close()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(one) for one in found] == [asyncio.CancelledError, asyncio.CancelledError]
    serve.gate.set()
    assert await double(3) == 6
    await double.close()


async def test_too_few_answers_keep_nobody_waiting() -> None:
    async def serve(items: Sequence[int]) -> Sequence[int]:
        return items[1:]

    double = Batcher(serve)
    asking = [asyncio.create_task(double(n)) for n in (1, 2)]
    await asyncio.sleep(0)
    server = double._server
    assert server is not None
    with pytest.raises(ValueError, match="shorter"):
        await server
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [found[0], type(found[1])] == [2, asyncio.CancelledError]


async def _until(there: object) -> None:
    assert callable(there)
    for _ in range(50):
        if there():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")
