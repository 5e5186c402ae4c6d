"""How the simulation calls stages and takes their answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any

import msgspec

from mainspring.entities.declare.model import Model
from mainspring.entities.declare.partial_model import misfit
from mainspring.entities.declare.stage import Stage
from mainspring.entities.kind import AnyKind
from mainspring.entities.save.change import check_values
from mainspring.errors import InvalidOutcome, UndeclaredField
from mainspring.foreign import pydantic_types
from mainspring.loops import run_apart


def fields_of(entity: object) -> dict[str, object]:
    """The fields of an entity by their names in the table; of a part of one, those that it has."""
    if isinstance(entity, dict):
        return dict(entity)
    names = _attributes(entity)
    return {name: getattr(entity, own) for name, own in names.items() if hasattr(entity, own)}


def _attributes(entity: object) -> dict[str, str]:
    """What an entity calls its fields, by their names in the table."""
    if isinstance(entity, msgspec.Struct):
        return {f.encode_name: f.name for f in msgspec.structs.fields(entity)}
    if is_dataclass(entity):
        return {f.name: f.name for f in dataclass_fields(entity)}
    raise InvalidOutcome(f"an entity must be a dataclass, a Struct or a dict, got {entity!r}")


def rebuilt(entity: object, changed: dict[str, object]) -> object:
    """The entity with some fields changed."""
    if isinstance(entity, dict):
        return {**entity, **deepcopy(changed)}
    names = _attributes(entity)
    values = {**fields_of(entity), **deepcopy(changed)}
    return type(entity)(**{names[name]: value for name, value in values.items()})


def patch_of(
    entity: object,
    wanted: dict[str, object],
    *,
    stage: Stage | None = None,
    kind: AnyKind | None = None,
) -> dict[str, object]:
    """Of the wanted values those that differ; a stage may only change what it declares."""
    now = fields_of(entity)
    if unknown := sorted(set(wanted) - set(now)):
        whose = f"stage {stage.name!r} writes" if stage else "the change names"
        raise InvalidOutcome(
            f"{whose} {unknown[0]!r}, which the entity has not; it has {', '.join(now)}"
        )
    changed = {name: value for name, value in wanted.items() if now[name] != value}
    if stage is not None and kind is not None:
        _check_declared(stage, kind, changed)
        plain = {
            name: msgspec.to_builtins(value, str_keys=True, enc_hook=pydantic_types.write)
            for name, value in changed.items()
        }
        check_values(kind.model, f"stage {stage.name!r}", plain)
    return changed


def _check_declared(stage: Stage, kind: AnyKind, changed: dict[str, object]) -> None:
    writes = stage.settings.writes
    for name in changed:
        fixed = name in kind.keys or name == kind.settings.version
        if fixed or (writes is not None and name not in writes):
            may = "nothing" if writes == () else ", ".join(writes) if writes else "all but its key"
            raise UndeclaredField(
                f"stage {stage.name!r} changed {name!r}, but declares that it writes {may}; "
                f"add it to writes= or leave it as it is"
            )


def seen_by(model: Model, kind: AnyKind, entity: object) -> object:
    """The entity as a stage is given it, decoded as from the database: whole, or what it reads."""
    return model.decode(kind.model.encode(entity))


def called(
    kind: AnyKind, stage: Stage, role: str, function: Callable[..., Any], *arguments: object
) -> object:
    """Call a stage's function, plain or async; what it raises says whose it is.

    A coroutine that never waits is walked through without an event loop, which is a hundred times
    faster; one that does is called again on a loop of its own. Stages are pure, so they may be.
    """
    try:
        answer = function(*arguments)
        if not inspect.iscoroutine(answer):
            return answer
        try:
            answer.send(None)
        except StopIteration as end:
            return end.value
        except RuntimeError as stopped:
            if "event loop" not in str(stopped):
                raise
        finally:
            answer.close()
        return run_apart(function(*arguments))
    except Exception as caught:
        told = misfit(kind.model, stage, caught) if isinstance(caught, TypeError) else None
        error = told or caught
        error.add_note(f"in {role} of stage {stage.name!r} of kind {stage.kind!r}")
        if told is None:
            raise
        raise told from caught


def call_hook(hook: Callable[..., object], event: object) -> None:
    """Call a hook once."""
    answer = hook(event)
    if inspect.iscoroutine(answer):
        run_apart(answer)
