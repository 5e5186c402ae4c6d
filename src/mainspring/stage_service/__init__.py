"""A stage in a service of its own, in Python (`mainspring[grpc]`).

    from mainspring import Update
    from mainspring.stage_service import ServedStage, serve

    class Rank(ServedStage):
        kind, stage = "listing", "rank"

        async def process(self, item):
            return Update(rank=len(item.entity["title"]))

    serve("127.0.0.1:7500", Rank())

It needs no database, and nothing of the engine.

items.py     what a stage is given, and how its answers become messages
served.py    ServedStage: what a service implements
service.py   the calls of the service
serving.py   a server of stages: its address, TLS, tokens and health
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.errors import MissingExtra
from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.stage_service.items import HeardEvent, ServedItem, StageProblem
    from mainspring.stage_service.served import ServedStage
    from mainspring.stage_service.serving import StageServer, serve

__all__ = ["HeardEvent", "ServedItem", "ServedStage", "StageProblem", "StageServer", "serve"]

if not TYPE_CHECKING:
    _find = on_demand(
        __name__,
        {
            "items": "HeardEvent ServedItem StageProblem",
            "served": "ServedStage",
            "serving": "StageServer serve",
        },
    )

    def __getattr__(name: str) -> object:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("grpc", "google"):
                raise
            raise MissingExtra("serving stages", error.name, "grpc") from None
