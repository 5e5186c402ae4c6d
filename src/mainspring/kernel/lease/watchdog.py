"""The watchdog: ends a process whose runs could not be stopped when its lease ends.

It is a thread of the interpreter's own, which needs no lock. So neither a task that never lets go of the
interpreter nor a heart that hangs can keep it from its work. Each beat puts it off. When the lease has
ended and nothing runs any more, whoever sees that calls it off.

A mark in a file tells who started the process as which worker it was last known. It also tells whether the
database was being asked in vain when the watchdog came: then the network ended the process, and no run did.
"""

from __future__ import annotations

import faulthandler
import os
import struct
import threading
from uuid import UUID

from mainspring import clock
from mainspring.kernel.owned import Owned
from mainspring.kernel.tuning import LEASE

EXIT_CODE = 1  # the interpreter's choice
_MARK = struct.Struct("d16s")


class Watchdog:
    """One per worker; `on` where a run that cannot be stopped shall end the process."""

    def __init__(self, owned: Owned, lease: float, *, on: bool, mark: int | None = None) -> None:
        self._owned = owned
        self._lease = lease
        self._on = on
        self._mark = mark  # a file that outlives the process
        self._gate = threading.Lock()
        self._ends_at = 0.0
        self._asking = False

    def beaten(self, sent: float) -> None:
        """A beat that was sent then is answered: the lease is in force anew."""
        with self._gate:
            self._owned.lease_until(sent + self._lease * LEASE.fence)
            self._ends_at = sent + self._lease * LEASE.exit
            if self._on:
                left = self._ends_at - clock.local()
                faulthandler.dump_traceback_later(max(LEASE.least_exit, left), exit=True)
        self._write()

    def asking(self) -> None:
        """The database is being asked: an end of the process before `answered` is the network's doing."""
        self._asking = True
        self._write()

    def answered(self) -> None:
        self._asking = False
        self._write()

    def _write(self) -> None:
        if self._mark is not None and (me := self._owned.worker_id) is not None:
            ends_at = self._ends_at if self._asking else 0.0
            os.pwrite(self._mark, _MARK.pack(ends_at, me.bytes), 0)

    def call_off_if_idle(self) -> None:
        """From any thread. A beat that comes at the same time is not undone: it has moved the lease."""
        with self._gate:
            if self._on and clock.local() > self._owned.good_until and not self._owned.active():
                faulthandler.cancel_dump_traceback_later()

    def end(self) -> None:
        if self._on:
            faulthandler.cancel_dump_traceback_later()


def read_mark(mark: int, code: int) -> tuple[UUID | None, bool]:
    """Of a process that has just ended: which worker it was, if it had joined a pool, and whether its
    watchdog ended it while the database did not answer."""
    written = os.pread(mark, _MARK.size, 0)
    if len(written) < _MARK.size:
        return None, False
    ends_at, me = _MARK.unpack(written)
    return UUID(bytes=me), code == EXIT_CODE and 0.0 < ends_at <= clock.local()
