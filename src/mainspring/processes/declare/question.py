"""Questions: signals that are answered. Who asks waits for what the process makes of it.

A question is kept like a signal until the process takes it. Its answer is the promise that the process
names; nobody waits for it there, and who asks finds it in the graph. So an answer survives whoever asked:
asked again under the same id, it is the same question.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

import msgspec

from mainspring.errors import InvalidArguments, InvalidSetting, ProcessFailed, Refused
from mainspring.foreign import pydantic_types
from mainspring.processes.declare.decider_api import Signal
from mainspring.processes.record.recorder import current
from mainspring.tasks.declare.promise import Failure, Promise
from mainspring.tasks.declare.signature import with_zone

T = TypeVar("T")
A = TypeVar("A")


class FoundAnswer(msgspec.Struct, frozen=True):
    """How a question stands."""

    state: str  # of its process
    taken: bool = False
    outcome: str | None = None
    result: str | None = None  # JSON
    failure: Failure | None = None


class Question(Signal[T], Generic[T, A]):
    """A signal that is answered; made by `app.question(name, type, type of the answer)`.

    raise_limit = app.question("raise limit", int, str)

    @app.process
    def account(number: int) -> Promise[str]:
        return raise_limit.answer(lambda limit: set_limit(number, limit))

    assert await handle.ask(raise_limit, 500) == "the limit is 500"
    """

    def __init__(self, name: str, kind: type[T], answers: type[A]) -> None:
        super().__init__(name, kind)
        self.answers = answers
        try:
            self._answer = msgspec.json.Decoder(
                with_zone(pydantic_types.adapted(answers)), dec_hook=pydantic_types.read
            )
        except TypeError as error:
            raise InvalidSetting(
                f"the answers of question {name!r} cannot travel as JSON: {error}"
            ) from None

    def answer(
        self,
        body: Callable[[Promise[T]], Promise[A]],
        *,
        timeout: timedelta | float | None = None,
        now: bool = False,
    ) -> Promise[A]:
        """Wait for the next such question, and answer it by the promise that the body makes of it.

        The result is the answer. `timeout` and `now` are those of a signal.
        """
        asked = self.now(timeout=timeout) if now else self.wait(timeout=timeout)
        answer = body(asked)
        if not isinstance(answer, Promise):
            raise InvalidArguments(
                f"question {self.name!r} is answered by the promise of a call, got "
                f"{type(answer).__name__}: call a task or a process with what was asked"
            )
        current("answer(...)").builtin("@answer", {}, [answer], "value", held=[asked])
        return answer

    def found(self, process: str, answer: FoundAnswer) -> tuple[A] | None:
        """The answer, if it is there; an error if there never will be one."""
        if answer.outcome == "ok":
            return (self._answer.decode(answer.result or "null"),)
        if answer.outcome == "err":
            text = f"process {process} came to no answer to {self.name!r}: {answer.failure}"
            raise ProcessFailed(text, state=answer.state, failure=answer.failure)
        if answer.state != "open":
            raise Refused(f"process {process} is {answer.state} and did not answer {self.name!r}")
        return None


class ProcessView(msgspec.Struct, frozen=True):
    """What is seen of a process that runs: its attributes, its progress, and what it waits for."""

    state: str
    attrs: dict[str, object]
    done: int  # tasks
    live: int
    parked: int
    waits_for: list[str]  # names of signals
