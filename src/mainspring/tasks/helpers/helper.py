"""One helper, as its worker sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from mainspring.errors import HelperDied
from mainspring.tasks.helpers.messages import (
    HEAD,
    Beat,
    Began,
    Ended,
    Heard,
    Progressed,
    Ready,
    RunOrder,
    Setup,
    Stop,
    Told,
    frame,
    length,
    read_heard,
)

# The path comes first: the worker may have been taught where its own modules are.
_MAIN = (
    "import sys, json; setup = sys.argv[1]; sys.path[:] = json.loads(setup)['path'];"
    " import msgspec; from mainspring.tasks.helpers.messages import Setup;"
    " from mainspring.tasks.helpers.inside import main; main(msgspec.json.decode(setup, type=Setup))"
)
# What it still had to say when it died is read for so long (seconds): another process may hold its pipe.
_LAST_WORDS = 0.5


class NeverBegan(Exception):
    """A helper has died before it began what it was ordered: no attempt was made."""


class _Pipes(asyncio.SubprocessProtocol):
    """Reads messages, and learns of the end: of the process, whoever else may hold its pipe."""

    def __init__(self, heard: Callable[[Heard], None], cut_off: Callable[[], None]) -> None:
        self._heard, self._cut_off = heard, cut_off
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._exited = self._silent = False
        self.died: asyncio.Future[None] = self._loop.create_future()  # and has said its last words

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        self._data += data
        while len(self._data) >= HEAD:
            end = HEAD + length(bytes(self._data[:HEAD]))
            if len(self._data) < end:
                return
            message = bytes(self._data[HEAD:end])
            del self._data[:end]
            self._heard(read_heard(message))

    def process_exited(self) -> None:
        self._exited = True
        self._loop.call_later(0 if self._silent else _LAST_WORDS, self._is_dead)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._silent = True
            if self._exited:
                self._is_dead()
            else:  # it ends just now, or else it cannot be talked with any more
                self._loop.call_later(_LAST_WORDS, self._cut_off)

    def _is_dead(self) -> None:
        if not self.died.done():
            self.died.set_result(None)


class HelperProcess:
    """A process that runs one function at a time. Used by the worker's event loop."""

    def __init__(self) -> None:
        self._pipes = _Pipes(self._take, self.kill)
        self._transport: asyncio.SubprocessTransport
        self._heard: Callable[[Heard], None] = _ignore
        self._ended: asyncio.Future[Ended | None] | None = None
        self._order: RunOrder | None = None  # that is at hand
        self._began = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.runs = 0
        self.spent = False  # it is not used again

    @classmethod
    async def started(cls, setup: Setup) -> HelperProcess:
        """A fresh one. It need not be ready to be given an order."""
        helper = cls()
        await helper._start(msgspec.json.encode(setup).decode())
        return helper

    async def _start(self, setup: str) -> None:
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self._pipes,
            *(sys.executable, "-c", _MAIN, setup),
            stderr=None,
            start_new_session=True,  # a Ctrl-C in the terminal is for the worker
        )

    @property
    def lives(self) -> bool:
        return self._transport.get_returncode() is None

    async def ready(self) -> bool:
        """When it has imported what it was told; false if it died."""
        await asyncio.wait({self._ready, self._pipes.died}, return_when=asyncio.FIRST_COMPLETED)
        return self._ready.done()

    async def carry_out(self, order: RunOrder, heard: Callable[[Heard], None]) -> Ended:
        """What the run came to; `heard` is told what it says meanwhile."""
        self.runs += 1
        self._order, self._began, self._heard = order, False, heard
        ended: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()
        self._ended = ended
        died = self._pipes.died
        died.add_done_callback(self._end)
        self._tell(order)
        try:
            found = await ended
        finally:
            died.remove_done_callback(self._end)
            self._order, self._ended, self._heard = None, None, _ignore
        if found is not None:
            self.spent = self.spent or found.spent
            return found
        self.kill()  # its pipe is closed: it cannot be used any more
        if not self._began:
            raise NeverBegan(self.how_it_ended())
        raise self._death(order)

    def _tell(self, message: Told) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.write(frame(message))

    def _end(self, found: Ended | asyncio.Future[None]) -> None:
        """The order at hand is over; a future: the helper is dead."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(found if isinstance(found, Ended) else None)

    def _take(self, message: Heard) -> None:
        """It has said this."""
        if isinstance(message, Ended):
            self._end(message)
        elif isinstance(message, Began):
            self._began = True
        elif isinstance(message, Beat | Progressed):
            # A thread that an earlier run has left behind speaks for nobody.
            if self._order is not None and message.number == self._order.number:
                self._heard(message)
        elif not isinstance(message, Ready):
            self._heard(message)
        elif not self._ready.done():
            self._ready.set_result(None)

    def stop(self, why: str) -> None:
        """Tell the run at hand to end."""
        if self._order is not None:
            self._tell(Stop(self._order.number, why))

    def kill(self) -> None:
        """End it, and what it has started. From any thread."""
        self.spent = True
        if not self.lives:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)  # it leads a group of its own

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        self.kill()
        await self._pipes.died
        self._transport.close()

    def how_it_ended(self, memory_max: int | None = None) -> str:
        """In words."""
        code = self._transport.get_returncode()
        if code is None or code >= 0:
            return f"with exit code {code}"
        name = _signal_name(-code)
        if name != "SIGKILL":
            return f"by {name}"
        hint = "" if memory_max is not None else ", of which memory_max= would keep it"
        return f"by SIGKILL: somebody killed it, or the system was out of memory{hint}"

    def _death(self, order: RunOrder) -> HelperDied:
        code = self._transport.get_returncode()
        return HelperDied(
            f"the process that ran it ended {self.how_it_ended(order.memory_max)}; its worker goes on",
            exit_code=code if code is not None and code >= 0 else None,
            signal=None if code is None or code >= 0 else _signal_name(-code),
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ignore(_: Heard) -> None:
    """What is said between two runs."""
