"""Which application or database a command means: `--url`, `--app`, or what the environment says."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.cli import codes
from mainspring.errors import InvalidSetting, MainspringError
from mainspring.failure_text import ENGINE
from mainspring.host import DatabaseHost
from mainspring.operate.audit import Origin, ordered_by, process_user
from mainspring.operate.rights import explaining
from mainspring.phrases import nearest

if TYPE_CHECKING:
    from mainspring.app import Mainspring
    from mainspring.operator import Operator

T = TypeVar("T")
H = TypeVar("H", bound=DatabaseHost)
PRIVATE = Path(".mainspring")


def named(place: str | None) -> str:
    """Where the application is: as given, or as the environment says."""
    if place is None and not (place := os.environ.get("MAINSPRING_APP")):
        raise InvalidSetting(
            "no application is named: write it as module:name, or set MAINSPRING_APP=module:name"
        )
    return place


def load_app(place: str) -> Mainspring:
    """The application at "module:name"; every way in which it is not there has its own error."""
    from mainspring.app import Mainspring

    module_name, _, name = place.partition(":")
    if not module_name or (":" in place and not name):
        raise InvalidSetting(f"write the application as module:name, got {place!r}")
    if "/" in module_name or module_name.endswith(".py"):
        raise InvalidSetting(f"{place!r} is a file; {_module_of(Path(module_name), name or 'app')}")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _imported(module_name, place)
    name = name or "app"
    if not hasattr(module, name):
        if getattr(module, "__file__", None) is None:  # Python takes any directory for a package
            raise InvalidSetting(
                f"{module_name!r} (of {place!r}) is the directory {next(iter(module.__path__))}, not a "
                f"module: go into it, or name a module in it, as {module_name}.MODULE:{name}"
            )
        known = [n for n, value in vars(module).items() if isinstance(value, Mainspring)]
        near = nearest(name, known) or (f"; did you mean {known[0]!r}?" if known else "")
        raise InvalidSetting(f"module {module_name!r} has no {name!r}{near}")
    app = getattr(module, name)
    if not isinstance(app, Mainspring):
        raise InvalidSetting(
            f"{place!r} is a {type(app).__name__}, not a Mainspring: name the object that "
            "Mainspring() made"
        )
    return app


def _module_of(file: Path, name: str) -> str:
    """How the application in a file is named, and from where."""
    if file.is_absolute() or ".." in file.parts:
        return f"name its module, {file.stem}:{name}, from the directory {file.parent}"
    return f"name its module: {'.'.join(file.with_suffix('').parts)}:{name}"


def _imported(name: str, place: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidSetting(
                f"there is no module {error.name!r} (of {place!r}) in {os.getcwd()} or PYTHONPATH"
            ) from None
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> InvalidSetting:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(("<", importlib.__file__, *ENGINE))]
    named = isinstance(error, SyntaxError)  # says itself where it is
    where = "" if named or not own else f" at {own[-1].filename}:{own[-1].lineno}"
    reason = str(error).splitlines()[0] if str(error) else ""
    kind = "" if isinstance(error, MainspringError) else f"{type(error).__name__}: "
    return InvalidSetting(f"module {name!r} cannot be imported: {kind}{reason}{where}")


def resolve(url: str | None, app: str | None = None) -> Mainspring:
    """The application that is meant; one without tasks when only a database is known."""
    from mainspring.app import Mainspring

    return _resolve(Mainspring, url, app)


def _resolve(alone: Callable[[str | None], H], url: str | None, app: str | None) -> H | Mainspring:
    """The application that is meant; where only a database is known, that `alone`."""
    if url is not None:
        if app is None:
            return alone(url)
        target = load_app(app)
        target.redirect(url)
        return target
    place = app or os.environ.get("MAINSPRING_APP")
    if app is None and os.environ.get("MAINSPRING_URL"):
        return alone(None)
    if place:
        return load_app(place)
    if (PRIVATE / "data" / "PG_VERSION").is_file():
        return alone(None)
    raise InvalidSetting(
        "no database is named: give --url, or set MAINSPRING_URL or MAINSPRING_APP=module:app "
        "(a private one is made by your program, or by mainspring worker or dev module:app)"
    )


def existing(url: str | None, app: str | None = None) -> DatabaseHost:
    """The database that is meant, with its application if one is named; who asks makes none."""
    return _placed(_resolve(DatabaseHost, url, app))


def _placed(target: H) -> H:
    if not target.is_placed:
        raise InvalidSetting(
            f"no database is named, and there is no private one in {target.directory.absolute()}: "
            "give --url, set MAINSPRING_URL, or go to the directory in which your program or worker "
            "runs (that makes one)"
        )
    return target


def ask(question: Callable[[Operator], Awaitable[T]], url: str | None, app: str | None = None) -> T:
    """Ask the operator's side of the database that is meant."""
    return ask_host(lambda target: question(target.operator), url, app)


def ask_host(
    question: Callable[[DatabaseHost], Awaitable[T]], url: str | None, app: str | None = None
) -> T:
    """The same, whatever has the database: what was declared is not asked for."""
    return _ask(existing(url, app), question)


def ask_app(
    question: Callable[[Mainspring], Awaitable[T]], url: str | None, app: str | None = None
) -> T:
    """Ask the application that is meant itself."""
    return _ask(_placed(resolve(url, app)), question)


def _ask(target: H, question: Callable[[H], Awaitable[T]]) -> T:
    """Ask; what is not found says where that was."""

    async def asking() -> T:
        async with target:
            try:
                with ordered_by(Origin(process_user(), "cli")), explaining():
                    return await question(target)
            except MainspringError as error:
                if codes.code_of(error) == codes.NOT_FOUND:
                    error.add_note(f"looked in {(await target.database()).shown}")
                raise

    return asyncio.run(asking())
