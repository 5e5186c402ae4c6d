"""The triggers that see every change of a user's table: which there must be, and the SQL that makes them.

The functions that they call are the schema's own (`db/schema/functions/capture*.sql`), so a new release
upgrades them by itself; a trigger only says kind, key and columns. A table with types that are not built
in has a function made from the schema's (`generate_capture`). A version column has one small function
per kind besides, which counts it up before each update. All text here is made of quoted names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.table import Shape, literal, quoted

# Fires after other triggers of its time: PostgreSQL goes by name.
PREFIX = "zz_mainspring_"
# Types whose JSON text is the text that a cast prints.
_PLAIN = frozenset(
    f"pg_catalog.{name}"
    for name in ("int2", "int4", "int8", "text", "varchar", "uuid", "numeric", "date", "bool")
)
_EVENTS = {
    "insert": ("insert", "new table as new_rows"),
    "update": ("update", "old table as old_rows new table as new_rows"),
    "delete": ("delete", "old table as old_rows"),
}


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger as it must be."""

    oid: int  # of its table
    table: str  # quoted, with schema
    name: str
    function: str
    arguments: tuple[str, ...]
    when: str  # 'after update', ...
    each: str  # 'row' or 'statement'
    tables: str = ""  # its transition tables
    always: bool = False

    @property
    def sql(self) -> str:
        """The statements that make it."""
        given = ", ".join(literal(argument) for argument in self.arguments)
        tables = f"\n  referencing {self.tables}" if self.tables else ""
        name = quoted(self.name)
        text = (
            f"create trigger {name} {self.when} on {self.table}{tables}\n"
            f"  for each {self.each} execute function mainspring.{quoted(self.function)}({given});\n"
        )
        if self.always:
            text += f"alter table {self.table} enable always trigger {name};\n"
        return text

    @property
    def drop(self) -> str:
        return f"drop trigger if exists {quoted(self.name)} on {self.table};\n"


@dataclass(frozen=True, slots=True)
class FoundTrigger:
    """One trigger as it is."""

    oid: int
    table: str
    name: str
    function: str
    arguments: tuple[str, ...]
    enabled: str  # pg_trigger.tgenabled


class TriggerRow(NamedTuple):
    """A row of list_triggers.sql."""

    oid: int
    table_name: str
    name: str
    function: str
    enabled: str
    arguments: bytes  # each ended by a zero


def triggers(kind: KindSettings, shape: Shape) -> list[Trigger]:
    """The triggers that a kind on this table must have."""
    if kind.capture == "call" or kind.is_document:
        return []
    arguments = _arguments(kind, shape)
    always = kind.capture == "always"
    wanted = []
    if kind.has_version:
        for when in ("insert", "update"):
            wanted.append(
                Trigger(
                    shape.oid,
                    shape.sql,
                    f"{PREFIX}{kind.name}_{'first' if when == 'insert' else 'bump'}",
                    bump_name(kind),
                    (),
                    f"before {when}",
                    "row",
                    always=always,
                )
            )
    if kind.capture == "statement":
        for table in ((shape.oid, shape.sql), *((p.oid, p.sql) for p in shape.partitions)):
            for name, (when, tables) in _EVENTS.items():
                wanted.append(
                    Trigger(
                        *table,
                        f"{PREFIX}{kind.name}_{name}",
                        f"capture_of_{kind.name}" if is_generated(kind, shape) else "capture",
                        arguments,
                        f"after {when}",
                        "statement",
                        tables,
                    )
                )
    else:
        wanted.append(
            Trigger(
                shape.oid,
                shape.sql,
                f"{PREFIX}{kind.name}_row",
                "capture_row",
                arguments,
                "after insert or update or delete",
                "row",
                always=always,
            )
        )
    # A truncate of a partitioned table fires those of its leaves too: only they have one.
    leaves = [(p.oid, p.sql) for p in shape.partitions if p.leaf]
    for table in [(shape.oid, shape.sql)] if shape.relkind == "r" else leaves:
        # By name: what to print is said, printed with the writer's rights, taken (capture_clear.sql).
        for name, function, given in (
            ("a_clear", "capture_clear", (*arguments, "ask")),
            ("b_clear", "print_clear", (kind.name,)),
            ("clear", "capture_clear", arguments),
        ):
            wanted.append(
                Trigger(
                    *table,
                    f"{PREFIX}{kind.name}_{name}",
                    function,
                    given,
                    "before truncate",
                    "statement",
                    always=always,
                )
            )
    return wanted


def is_generated(kind: KindSettings, shape: Shape) -> bool:
    """Whether the capture is a function of the kind's own: for tables with types that are not built in."""
    return kind.capture == "statement" and any(
        not column.type.startswith("pg_catalog.") for column in shape.columns
    )


def generate_sql(kind: KindSettings, shape: Shape) -> str:
    """Makes that function anew, for the table as it is."""
    return f"select mainspring.generate_capture({literal(shape.sql)}, {literal(kind.name)});\n"


def _arguments(kind: KindSettings, shape: Shape) -> tuple[str, ...]:
    left_out = [*kind.ignore, *([kind.version] if kind.has_version else [])]
    plain = all(type_.partition("(")[0] in _PLAIN for type_ in shape.types(kind.keys))
    return (
        kind.name,
        array(kind.keys),
        kind.version,
        array(left_out),
        "plain" if plain else "cast",
        "notify" if kind.notify else "quiet",
    )


def array(names: Iterable[str]) -> str:
    """Names as the text of an array."""
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join(f'"{name}"' for name in escaped) + "}"


def bump_name(kind: KindSettings) -> str:
    """The function that counts the kind's version up."""
    return f"bump_{kind.name}"


def bump_sql(kind: KindSettings, shape: Shape) -> str:
    """The function that counts the version up: absolute, so whoever counts too gets the same number.

    Columns that the database computes are not there yet before an update: they are left out of the
    comparison. If a column that is named here is gone, the user's write goes on without us.
    """
    version = quoted(kind.version)
    compared = "new"
    copies = ""
    if shape.generated:
        compared = "image"
        fields = "".join(
            f" image.{quoted(name)} := old.{quoted(name)};" for name in shape.generated
        )
        copies = f"\n    image := new;{fields}"
    return f"""create or replace function mainspring.{quoted(bump_name(kind))}() returns trigger
  language plpgsql
  as $bump$
declare
  image record;
begin
  begin
    if tg_op = 'INSERT' then
      new.{version} := coalesce(new.{version}, 1);
      return new;
    end if;{copies}
    if old operator(pg_catalog.*<>) {compared} then
      new.{version} := old.{version} + 1;
    end if;
    return new;
  exception
    when undefined_column or numeric_value_out_of_range then null;
  end;
  begin
    new.{version} := old.{version} + 1;
  exception
    when undefined_column or undefined_table then null;
    when numeric_value_out_of_range then new.{version} := 1;
  end;
  return new;
end
$bump$;
revoke execute on function mainspring.{quoted(bump_name(kind))}() from public;
"""


def install_sql(kind: KindSettings, shape: Shape) -> str:
    """All SQL that makes the triggers of a kind, for other tools to apply."""
    parts = [f"-- kind {kind.name} on {shape.sql}\n"]
    wanted = triggers(kind, shape)
    parts.append(
        f"delete from mainspring.captured where kind = {literal(kind.name)}"
        f" and relid <> {literal(shape.sql)}::regclass;\n"
        "insert into mainspring.captured (relid, kind)"
        f" values ({literal(shape.sql)}, {literal(kind.name)}) on conflict do nothing;\n"
    )
    if wanted and kind.has_version:
        parts.append(bump_sql(kind, shape))
    if wanted and is_generated(kind, shape):
        parts.append(generate_sql(kind, shape))
    parts += [trigger.drop + trigger.sql for trigger in wanted]
    return "".join(parts)


def own(kind: str, rows: Iterable[TriggerRow]) -> list[FoundTrigger]:
    """Those that are this kind's: the name of another's trigger may begin like its own."""
    found = [_found(row) for row in rows]
    return [f for f in found if f.arguments[:1] == (kind,) or f.function == f"bump_{kind}"]


def _found(row: TriggerRow) -> FoundTrigger:
    arguments = tuple(part.decode() for part in bytes(row.arguments).split(b"\0")[:-1])
    return FoundTrigger(
        row.oid, row.table_name, row.name, row.function, arguments, enabled=row.enabled
    )


def changes(kind: KindSettings, shape: Shape, found: Sequence[FoundTrigger]) -> list[str]:
    """The statements that turn the triggers there are into those there must be; none, if they are."""
    wanted = {(t.oid, t.name): t for t in triggers(kind, shape)}
    there = {(f.oid, f.name): f for f in found}
    statements = []
    for at, trigger in there.items():
        if at not in wanted or not _fits(trigger, wanted[at]):
            statements.append(f"drop trigger {quoted(trigger.name)} on {trigger.table}")
    for at, wish in wanted.items():
        if at not in there or not _fits(there[at], wish):
            statements.append(wish.sql)
    return statements


def faults(
    kind: KindSettings, shape: Shape, found: Sequence[FoundTrigger]
) -> Mapping[str, list[str]]:
    """What is wrong: 'missing', 'disabled', 'outdated', 'left' (too many) -> tables and triggers."""
    wanted = triggers(kind, shape)
    there = {(f.oid, f.name): f for f in found}
    wrong: dict[str, list[str]] = {}
    for wish in wanted:
        trigger = there.get((wish.oid, wish.name))
        if trigger is None:
            wrong.setdefault("missing", []).append(f"{wish.name} on {wish.table}")
        elif trigger.enabled in ("D", "R"):
            wrong.setdefault("disabled", []).append(f"{wish.name} on {wish.table}")
        elif not _fits(trigger, wish):
            wrong.setdefault("outdated", []).append(f"{wish.name} on {wish.table}")
    needed = {(wish.oid, wish.name) for wish in wanted}
    for at, trigger in there.items():
        if at not in needed:
            wrong.setdefault("left", []).append(f"{trigger.name} on {trigger.table}")
    return wrong


def _fits(found: FoundTrigger, wish: Trigger) -> bool:
    return (
        found.function == wish.function
        and found.arguments == wish.arguments
        and found.enabled == ("A" if wish.always else "O")
    )
