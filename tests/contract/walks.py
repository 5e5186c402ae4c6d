"""Which of our modules take part while something happens: counted by a profile hook, on all threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import mainspring

ROOT = str(Path(mainspring.__file__).parent)
# The tests' own, and what the walk does not go through: declarations made before it.
NOT_COUNTED = ("testing/", "__init__.py")


@contextmanager
def touched() -> Iterator[set[str]]:
    """The modules in which a function is called while the block lasts."""
    files: set[str] = set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    modules: set[str] = set()
    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        ours = {file.removeprefix(ROOT + "/") for file in files if file.startswith(ROOT + "/")}
        modules |= {file for file in ours if not any(part in file for part in NOT_COUNTED)}
