"""Declaring stages: made of a class, an object or a function, and checked.

What stages name is checked twice: among the fields of the model when they are declared, and among the
columns of the kind's table when that is looked at.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from mainspring.declaring import (
    POSITIVE,
    SECONDS,
    STARTS,
    check_number,
    check_settings,
    check_whole,
    in_seconds,
    name_of,
)
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.remote import ASK_SECONDS, RemotePlace
from mainspring.entities.declare.stage import (
    BUDGET_SECONDS,
    HOOKS,
    Process,
    Stage,
    StageKind,
    StageSettings,
)
from mainspring.entities.declare.state import StateType
from mainspring.entities.declare.table import Shape, check_column
from mainspring.errors import DuplicateStage, InvalidSetting, InvalidStage
from mainspring.retry_policy import RetryPolicy

NAME_BYTES = 80


def declare(kind: StageKind, target: object, given: dict[str, Any]) -> Stage:
    """Make a stage of a class, an object or a function, and enter it in its kind."""
    given = dict(given)
    in_seconds(given)
    name = name_of(given, target, InvalidStage) or type(target).__name__
    if name == "<lambda>":
        raise InvalidStage(
            f"a stage of kind {kind.name!r} is a lambda, which has no name to be found by: write it "
            "as a function, with def, or give it one with name="
        )
    _check_name(kind.name, name)
    if name in kind.stages and kind.stages[name].target is not target:
        raise DuplicateStage(
            f"kind {kind.name!r} has two stages named {name!r}; give one of them another name"
        )
    bound = _bound(target, name)
    state = StateType(
        stage=name,
        type=given.pop("state", None),
        schema=given.pop("schema", getattr(bound, "schema", 1)),
        upgrade=given.pop("upgrade", getattr(bound, "upgrade", None)),
    )
    settings = _settings(name, given)
    _check_turns(kind, name, settings)
    _check_fields(kind, name, settings)
    function = bound if inspect.isroutine(bound) else None
    if function is None:
        _check_methods(name, bound)
    stage = Stage(
        kind=kind.name,
        name=name,
        settings=settings,
        state=state,
        process=_two(name, "process", function or getattr(bound, "process", None)),
        should_process=None
        if function
        else _two(name, "should_process", getattr(bound, "should_process", None), optional=True),
        **{} if function else {name: getattr(bound, name, None) for name in HOOKS},
        target=target,
    )
    _check_was(kind, stage)
    kind.stages[name] = stage
    return stage


def declare_remote(
    kind: StageKind, name: str, place: RemotePlace, ask: Process | None, given: dict[str, Any]
) -> Stage:
    """Make a stage that another service implements, and enter it in its kind. `ask` is asked here."""
    given = dict(given)
    in_seconds(given)
    _check_name(kind.name, name)
    if name in kind.stages:
        raise DuplicateStage(
            f"kind {kind.name!r} has two stages named {name!r}; give one of them another name"
        )
    state = StateType(
        stage=name, type=given.pop("state", None), schema=given.pop("schema", 1), elsewhere=True
    )
    settings = _settings(name, {"budget": ASK_SECONDS if ask is None else BUDGET_SECONDS, **given})
    _check_turns(kind, name, settings)
    _check_fields(kind, name, settings)
    stage = Stage(
        kind=kind.name,
        name=name,
        settings=settings,
        state=state,
        process=_elsewhere,
        should_process=_two(name, "ask", ask, optional=True),
        target=place,
        remote=place,
    )
    _check_was(kind, stage)
    kind.stages[name] = stage
    return stage


def _elsewhere(entity: object, state: object) -> object:
    raise AssertionError("another service does this")


def _check_methods(name: str, bound: object) -> None:
    """A method that is left out is silently never called; one that is misspelt must not be."""
    for role in ("should_process", *HOOKS):
        public = [other for other in dir(type(bound)) if not other.startswith("_")]
        if role not in public and (near := get_close_matches(role, public, n=1, cutoff=0.85)):
            raise InvalidStage(
                f"stage {name!r} has a method {near[0]!r}, which nobody calls; did you mean {role!r}? "
                f"if it is one of your own, begin its name with '_'"
            )


def _check_turns(kind: StageKind, name: str, settings: StageSettings) -> None:
    """Only stages that run side by side are kept off each other."""
    serial, jitter = settings.serial, settings.jitter
    if serial is not None and not isinstance(serial, bool):
        raise InvalidSetting(f"serial of stage {name!r} must be True or False, got {serial!r}")
    if jitter is None:
        return
    if isinstance(jitter, bool) or not 0 <= jitter <= 3600:
        raise InvalidSetting(f"jitter of stage {name!r} must be 0 to 3600 seconds, got {jitter!r}")
    if jitter and (kind.is_serial if serial is None else serial):
        raise InvalidSetting(
            f"jitter of stage {name!r} is for stages that run beside others; say serial=False, "
            "or leave it out"
        )


def _check_fields(kind: StageKind, name: str, settings: StageSettings) -> None:
    """What a stage reads it is given by the model; what it writes a table may have beside it, and that is
    known when the table is looked at."""
    fields = kind.model.fields
    if fields is None:
        return
    named = {"reads": settings.reads}
    if not kind.has_table:
        named |= {"writes": settings.writes, "interest": settings.interest}
    for setting, names in named.items():
        for wanted in names or ():
            if wanted not in fields:
                near = get_close_matches(wanted, fields, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(fields)}"
                raise InvalidStage(
                    f"{setting} of stage {name!r} names {wanted!r}, a field that model "
                    f"{kind.model.type.__name__} of kind {kind.name!r} does not have; {hint}"
                )


def _check_was(kind: StageKind, stage: Stage) -> None:
    """A former name is nobody's name now, and that of one stage only."""
    others = [other for other in kind.stages.values() if other.name != stage.name]
    names = {other.name: other.name for other in (*others, stage)}
    names |= {former: other.name for other in others for former in other.settings.was}
    for former in stage.settings.was:
        _check_name(kind.name, former)
        if former in names:
            raise InvalidStage(
                f"was= of stage {stage.name!r} names {former!r}, which is or was stage {names[former]!r} "
                f"of kind {kind.name!r}"
            )
    for other in others:
        if stage.name in other.settings.was:
            raise InvalidStage(
                f"kind {kind.name!r} has a stage {stage.name!r}, so was= of stage {other.name!r} cannot "
                "name it"
            )


def _check_name(kind: str, name: str) -> None:
    bad = [c for c in "/~!:" if c in name]
    if not name or len(name.encode()) > NAME_BYTES or not name.isprintable() or bad:
        raise InvalidStage(
            f"a stage's name must have 1 to {NAME_BYTES} printable bytes without '/', '~', '!' "
            f"and ':', got {name!r} in kind {kind!r}; give it another with name="
        )


def _bound(target: object, name: str) -> object:
    """The object whose methods are called: an instance of a class, else what was given."""
    if not inspect.isclass(target):
        if not callable(target) and not hasattr(target, "process"):
            raise InvalidStage(
                f"stage {name!r} must be a class, an object or a function, got {target!r}"
            )
        return target
    try:
        return target()
    except TypeError as error:
        raise InvalidStage(
            f"stage {name!r} cannot be made without arguments ({error}); "
            f"declare an instance instead: kind.stage(...)({name}(...))"
        ) from error


def _two(name: str, role: str, function: Any, *, optional: bool = False) -> Any:
    """A function of (entity, state); one that takes the entity alone is called with that alone."""
    if function is None and optional:
        return None
    if not callable(function):
        raise InvalidStage(
            f"stage {name!r} has no {role}; give it: async def {role}(self, entity, state)"
        )
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if named or len(needed) > 2 or not (positional or many):
        raise InvalidStage(
            f"{role} of stage {name!r} must take (entity, state) or (entity), "
            f"got {inspect.signature(function)}"
        )
    if len(positional) >= 2 or many:
        return function
    if inspect.iscoroutinefunction(function):

        async def of_entity(entity: object, state: object) -> object:
            return await function(entity)

        return of_entity
    return lambda entity, state: function(entity)


def _settings(name: str, given: dict[str, Any]) -> StageSettings:
    fields: dict[str, Any] = {}
    for key in ("reads", "writes", "interest", "was"):
        if (value := given.pop(key, None)) is not None:
            fields[key] = _names(name, key, value)
    if fields.get("interest") is None and fields.get("reads") is not None:
        fields["interest"] = fields["reads"]
    retry = given.pop("retry", None) or RetryPolicy()
    if not isinstance(retry, RetryPolicy):
        raise InvalidSetting(f"retry of stage {name!r} must be a RetryPolicy, got {retry!r}")
    check_settings(f"stage {name!r}", given, StageSettings.__dataclass_fields__, InvalidSetting)
    settings = StageSettings(retry=retry, **fields, **given)
    _check_numbers(name, settings)
    if isinstance(settings.budget, bool) or not 0 < settings.budget <= 60:
        raise InvalidSetting(
            f"budget of stage {name!r} must be more than 0 to 60 seconds, got {settings.budget!r}"
        )
    if not isinstance(settings.sees_own, bool):
        raise InvalidSetting(
            f"sees_own of stage {name!r} must be True or False, got {settings.sees_own!r}"
        )
    return settings


def _check_numbers(stage: str, s: StageSettings) -> None:
    check_number(f"hold_after of stage {stage!r}", s.hold_after, 0, 3600, SECONDS)
    check_whole(f"crash_limit of stage {stage!r}", s.crash_limit, 1, 1000)
    if s.timeout is not None:
        check_number(f"timeout of stage {stage!r}", s.timeout, *POSITIVE, SECONDS)
    if s.rate is not None:
        check_number(f"rate of stage {stage!r}", s.rate, *POSITIVE, STARTS)
    if s.parallel is not None:
        check_whole(f"parallel of stage {stage!r}", s.parallel, 1, 1_000_000)


def _names(stage: str, setting: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidSetting(
            f"{setting} of stage {stage!r} must be a list of names, got the text {value!r}"
        )
    names = tuple(value)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidSetting(f"{setting} of stage {stage!r} must name fields, got {name!r}")
    return tuple(dict.fromkeys(names))


# -- columns


def check_stages(kind: DeclaredKind, shape: Shape | None) -> None:
    """Refuse stages that name what the entities do not have, or cannot have written."""
    for stage in kind.stages.values():
        s = stage.settings
        for setting in ("reads", "writes", "interest"):
            for name in getattr(s, setting) or ():
                _check_field(kind, shape, stage, name, setting)
        for name in s.writes or ():
            if name in kind.keys or name == kind.version:
                raise InvalidStage(
                    f"stage {stage.name!r} of kind {kind.name!r} cannot write {name!r}: "
                    "it is the key or the version, which the engine keeps"
                )


def _check_field(
    kind: DeclaredKind, shape: Shape | None, stage: Stage, name: str, setting: str
) -> None:
    if shape is not None and not kind.is_document:
        table = kind.settings.source
        column = check_column(kind.name, table, shape, name, f"{setting} of stage {stage.name!r}")
        if setting == "writes" and column.generated:
            raise InvalidStage(
                f"stage {stage.name!r} of kind {kind.name!r} cannot write {name!r}: "
                f"the database computes that column of {table!r}"
            )
