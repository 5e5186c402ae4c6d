"""What a helper does: it takes orders from its worker, one after another, and runs the user's functions.

It ends with its worker, however that ends: the pipe is closed then, and Linux kills it besides. Signals
that are meant for all processes of a service (SIGTERM, SIGINT) are the worker's to follow: it ends its
helpers when their runs have ended.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType

import msgspec

from mainspring.failure_text import clean_text
from mainspring.redact import Redactor, guarded
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.helpers.failure import raised_by
from mainspring.tasks.helpers.messages import (
    HEAD,
    Began,
    Ended,
    Heard,
    Logged,
    Ready,
    RunOrder,
    Setup,
    Stop,
    frame,
    length,
    read_told,
)
from mainspring.tasks.helpers.places import find_function, find_module
from mainspring.tasks.helpers.within import (
    INTERRUPT,
    HelperContext,
    HelperRun,
    Interrupted,
    memory_at_most,
)
from mainspring.tasks.run.context import Context, concluded

_PR_SET_PDEATHSIG = 1
_TEXT_BYTES = 16_000  # of a log line
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class Inside:
    """The helper itself: its pipes, the run at hand, the functions that it knows."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        # What the user's code, or a program that it starts, reads and prints is no message.
        self._orders_from = os.fdopen(os.dup(0), "rb")
        self._tell_to = os.fdopen(os.dup(1), "wb", buffering=0)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        self._telling = threading.Lock()
        self._orders: SimpleQueue[RunOrder] = SimpleQueue()
        self._current: HelperRun | None = None
        self._known: dict[str, tuple[Callable[..., object], Signature]] = {}

    def work(self) -> None:
        """Until the worker has gone."""
        signal.signal(INTERRUPT, self._interrupt)
        threading.Thread(target=self._listen, name="mainspring.orders", daemon=True).start()
        for module in self._setup.modules:
            with suppress(Exception):  # the run that needs it says so
                find_module(module, self._setup.main)
        self.tell(Ready())
        while True:
            with suppress(Interrupted):  # it came when the run had ended
                self._carry_out(self._orders.get())

    # -- messages

    def tell(self, message: Heard) -> None:
        """From any thread."""
        data = memoryview(frame(message))
        with self._telling:
            while data:
                data = data[self._tell_to.write(data) :]

    def _listen(self) -> None:
        """Take what the worker sends, in a thread: the user's code must be told to end while it runs."""
        try:
            self._take_all()
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # one that hears nothing must not be given anything

    def _take_all(self) -> None:
        while True:
            head = self._orders_from.read(HEAD)
            if len(head) < HEAD:
                os._exit(0)  # the worker has gone
            message = read_told(self._orders_from.read(length(head)))
            if isinstance(message, Stop):
                self._stop(message)
            else:
                self._orders.put(message)

    def _stop(self, message: Stop) -> None:
        current = self._current
        if current is not None and current.order.number == message.number:
            current.stop(message.why)

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        if (current := self._current) is not None and current.interrupted:
            raise Interrupted

    # -- runs

    def _carry_out(self, order: RunOrder) -> None:
        current = HelperRun(order)
        result, raised, spent = None, None, False
        try:
            self._current = current
            try:
                self.tell(Began(order.number))
                with memory_at_most(order.memory_max):
                    result = self._call(current)
            finally:
                self._current = None
        except BaseException as error:
            self._current = None  # an interrupt may have come between
            raised, spent = raised_by(error), isinstance(error, MemoryError | Interrupted)
        self.tell(Ended(order.number, result, raised, spent or current.interrupted))

    def _call(self, current: HelperRun) -> str | None:
        order = current.order
        function, signature = self._function(order)
        arguments = signature.decode(order.payload)
        if order.hidden:
            function = guarded(function, Redactor(order.hidden), order.payload)
        context = None
        if signature.context_parameter is not None:
            context = HelperContext(current.run, signature.encode_result, order, self.tell)
            arguments[signature.context_parameter] = context
        try:
            if inspect.iscoroutinefunction(function):

                async def call() -> object:
                    current.entered()
                    try:
                        return await function(**arguments)
                    finally:
                        current.left()

                returned = asyncio.run(call())
            else:
                returned = function(**arguments)
        finally:
            if context is not None:
                context.say_last_word()
        return signature.encode_result(concluded(context, returned))

    def _function(self, order: RunOrder) -> tuple[Callable[..., object], Signature]:
        if order.place not in self._known:
            function = find_function(order.place, self._setup.main)
            self._known[order.place] = function, Signature(order.task, function, Context)
        return self._known[order.place]


class _Forward(logging.Handler):
    """What is logged here, the worker writes: with its format, and as a line of the run."""

    def __init__(self, tell: Callable[[Heard], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._tell(_logged(record))
        except Exception:
            self.handleError(record)


def _logged(record: logging.LogRecord) -> Logged:
    exception = None
    if record.exc_info and record.exc_info[0] is not None:
        exception = clean_text("".join(traceback.format_exception(*record.exc_info)), _TEXT_BYTES)
    return Logged(
        record.name,
        record.levelno,
        clean_text(record.getMessage(), _TEXT_BYTES),
        record.pathname,
        record.lineno,
        record.funcName or "",
        record.created,
        exception,
        {
            name: value
            for name, value in record.__dict__.items()
            if name not in _STANDARD and isinstance(value, str | int | float | bool | None)
        },
    )


def _end_with(parent: int) -> None:
    """Be killed when the worker dies, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main(setup: Setup) -> None:
    """Be a helper until the worker has gone."""
    _end_with(setup.parent)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(
            each, lambda *_: None
        )  # not SIG_IGN, which programs started here would inherit
    inside = Inside(setup)
    logging.basicConfig(level=setup.log_level, handlers=[_Forward(inside.tell)], force=True)
    inside.work()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Setup))
