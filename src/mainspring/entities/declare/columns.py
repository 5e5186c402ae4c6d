"""What stages name must be among the columns of the kind's table; the model's fields were checked when they
were declared."""

from __future__ import annotations

from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.table import Shape, check_column
from mainspring.errors import InvalidStage


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
