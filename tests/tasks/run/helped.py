"""Functions that helpers run: at the top of a module, where a process of its own finds them."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import threading
import time
from pathlib import Path

from mainspring import Context, RetryAfter

log = logging.getLogger("helped")


class OutOfPaper(Exception):
    def __init__(self, tray: int, *, colour: str) -> None:
        super().__init__(f"tray {tray} has no {colour} paper")


def who(number: int) -> tuple[int, int]:
    return number, os.getpid()


async def who_async(number: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return number, os.getpid()


def crash(how: str) -> None:
    if how == "signal":
        ctypes.string_at(0)
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "with a child of its own":
        if os.fork() == 0:
            time.sleep(60)
        os._exit(4)
    os._exit(3)


def crash_once(mark: str) -> str:
    if not Path(mark).exists():
        Path(mark).touch()
        os._exit(3)
    return "survived"


def refuse(tray: int) -> None:
    raise OutOfPaper(tray, colour="green")


def come_later(mark: str) -> str:
    if not Path(mark).exists():
        Path(mark).touch()
        raise RetryAfter(0.01, "not yet")
    return "later"


def devour(size: int) -> int:
    return len(bytearray(size))


def leave() -> None:
    raise SystemExit(3)


def facts(ctx: Context) -> dict[str, str | int | None]:
    log.warning("paper %s", "jam", extra={"tray": 2})
    print("this is no message")
    assert ctx.worker_id is not None
    ctx.set_result({"key": ctx.idempotency_key, "group": ctx.group, "attempt": ctx.attempt})
    return None  # type: ignore[return-value]


def halfway(ctx: Context) -> str:
    for n in range(1001):
        ctx.progress(n / 1000, f"row {n}")
    return "done"


def leaves_a_thread(ctx: Context, folder: str, *, is_first: bool) -> str:
    """The first call's thread speaks while the second one runs."""
    began, said, place = Path(folder) / "began", Path(folder) / "said", Path(folder) / "place"

    def speak() -> None:
        while not began.exists():
            time.sleep(0.01)
        ctx.progress(0.77, "of the first call")
        ctx.progress(0.78, "of the first call")
        said.touch()

    if is_first:
        place.write_text(str(os.getpid()))
        threading.Thread(target=speak, daemon=True).start()
        return "left"
    if place.read_text() != str(os.getpid()):
        return "elsewhere"  # a helper that had been started ahead took its place
    began.touch()
    while not said.exists():
        time.sleep(0.01)
    return "said"


def says_a_number(ctx: Context) -> None:
    ctx.progress(1, 5)  # type: ignore[arg-type]


def commit(ctx: Context) -> None:
    with ctx.transaction():
        pass


def until_told(ctx: Context, mark: str) -> str:
    assert not ctx.cancelled
    Path(mark).touch()  # from here on it may be told to end
    ctx.cancelled.wait(60)
    Path(mark).write_text("cleaned up")
    return "half a result"


def never_asks(mark: str) -> None:
    try:
        Path(mark).touch()
        time.sleep(60)
    finally:
        Path(mark).write_text("cleaned up")


async def awaits(mark: str) -> None:
    Path(mark).touch()  # noqa: ASYNC240
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path(mark).write_text("cleaned up")  # noqa: ASYNC240
        raise


def deaf(mark: str) -> None:
    """Nothing in Python can end it."""
    Path(mark).write_text(str(os.getpid()))
    libc = ctypes.PyDLL(None)  # keeps the interpreter's lock
    while True:
        libc.usleep(100_000)


def double(number: int) -> int:
    return 2 * number
