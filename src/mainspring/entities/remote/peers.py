"""The services that a worker calls: one for each address and proof."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.entities.declare.remote import ServiceAddress
from mainspring.entities.declare.stage import Stage
from mainspring.entities.remote.items import StageCalls
from mainspring.entities.remote.peer import StagePeer
from mainspring.errors import InvalidSetting

# Makes the calls of a service: whoever puts a worker together knows who speaks gRPC.
MakeCalls = Callable[[ServiceAddress], StageCalls]


class Peers:
    """All services of a worker, made when a stage first needs one."""

    def __init__(self, make: MakeCalls | None) -> None:
        self._make = make
        self._peers: dict[ServiceAddress, StagePeer] = {}

    def of(self, stage: Stage) -> StagePeer:
        """The service of a stage."""
        assert stage.remote is not None
        address = stage.remote.address
        if (found := self._peers.get(address)) is None:
            if self._make is None:
                raise InvalidSetting(
                    f"nobody here can call {address}, where stage {stage.name!r} is"
                )
            found = self._peers[address] = StagePeer(address.url, self._make(address))
        found.add(stage)
        return found

    async def close(self) -> None:
        """End their calls."""
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
