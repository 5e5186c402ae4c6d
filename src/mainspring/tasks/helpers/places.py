"""Where a function is found by whoever must import it: its module and its name there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

from mainspring.declaring import check_whole
from mainspring.errors import InvalidTask
from mainspring.tasks.declare.task import Task

LEAST_MEMORY, MOST_MEMORY = 32 * 2**20, 2**50  # bytes
MAIN = "__main__"
# The worker's main module as a helper has it: what is guarded by `if __name__ == "__main__"` stays undone.
MAIN_ELSEWHERE = "__mainspring_main__"


def place_of(task: str, function: Callable[..., object]) -> str:
    """The place of a task's function; refused where nobody else can import it."""
    name = function.__qualname__
    if "<locals>" in name:
        raise InvalidTask(
            f'task {task!r} has executor="process", and its function is made inside another one ({name}): '
            "a process of its own has to import it, so write it at the top of a module"
        )
    module = function.__module__
    if module == MAIN:
        module = _main_by_name() or MAIN
    return f"{module}:{name}"


def check_executor(task: Task[..., object]) -> None:
    """Refuse settings of an executor that do not go together."""
    name, settings = task.name, task.settings
    if settings.executor not in (None, "process"):
        raise InvalidTask(
            f'task {name!r}: executor must be "process" or None (an async function runs in the event loop, '
            f"a plain one in a thread), got {settings.executor!r}"
        )
    if (most := settings.memory_max) is not None:
        check_whole("memory_max", most, LEAST_MEMORY, MOST_MEMORY)
        if settings.executor is None:
            raise InvalidTask(
                f"task {name!r}: memory_max={most!r} is that of a process, and there is none: give "
                'executor="process" too'
            )
    if settings.executor == "process":
        if settings.remote:
            raise InvalidTask(
                f'task {name!r}: remote=True is run by an actor elsewhere: leave executor="process" out'
            )
        place_of(name, task.function)


def module_of(place: str) -> str:
    return place.partition(":")[0]


def main_file() -> str | None:
    """The file of the main module, if it has one."""
    return getattr(sys.modules[MAIN], "__file__", None)


def _main_by_name() -> str | None:
    """The name by which `python -m` has found the main module."""
    spec = getattr(sys.modules[MAIN], "__spec__", None)
    return None if spec is None else spec.name


def find_function(place: str, main: str | None) -> Callable[..., object]:
    """The function at this place; its module is imported if it is not yet."""
    module, _, name = place.partition(":")
    found: object = find_module(module, main)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, Task):
        return found.function
    if not callable(found):
        raise InvalidTask(f"{place} is no function but {type(found).__name__}")
    return found


def find_module(name: str, main: str | None) -> ModuleType:
    """A module by its name; `__main__` is that of the worker, whose file is `main`."""
    if name != MAIN:
        return importlib.import_module(name)
    if (known := sys.modules.get(MAIN_ELSEWHERE)) is not None:
        return known
    spec = None if main is None else importlib.util.spec_from_file_location(MAIN_ELSEWHERE, main)
    if spec is None or spec.loader is None:
        raise InvalidTask(
            "the main module of the worker is no file, so a process of its own cannot import it: write "
            'functions with executor="process" in a module'
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[MAIN_ELSEWHERE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[MAIN_ELSEWHERE]
        raise
    return module
