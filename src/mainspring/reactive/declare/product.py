"""Products: params that a run sets when it succeeds."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.reactive.model.values import Param, Value


@dataclass(frozen=True, slots=True)
class Product:
    """A param that a run sets when it succeeds."""

    param: Param
    value: Value
    if_greater: bool = False
    is_rewind: bool = False
    chunks: tuple[int, ...] = ()
    why: str | None = None
