"""A program whose tasks are declared in its main module; its arguments: the database, a file, a command."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from pathlib import Path

from mainspring import Mainspring

app = Mainspring(sys.argv[1] if __name__ == "__main__" else None)


@app.task(executor="process")
def deaf(mark: str) -> None:
    """Nothing in Python can end it, and it reads no pipe."""
    Path(f"{mark}.new").write_text(str(os.getpid()))
    Path(f"{mark}.new").rename(mark)
    libc = ctypes.PyDLL(None)
    while True:
        libc.usleep(100_000)


async def main(mark: str) -> None:
    async with app, app.worker(helpers=2):
        await deaf.enqueue(mark)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2]))
