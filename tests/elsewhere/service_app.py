"""A service of stages in a process of its own. What it does with an entity is in the entity's title; each
call is told on stdout, a line each: "Process 1 2 3"."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from listing_message import Listing

from mainspring import Untouched, Update
from mainspring.stage_service import ServedStage, StageProblem, StageServer, serving
from mainspring.stage_service.service import ServedCalls
from mainspring.v1 import body_pb2
from mainspring.v1 import stage_service_pb2 as v1


def say(*words: object) -> None:
    print(*words, flush=True)


class Rank(ServedStage):
    """rank = twice the price, and a count of its visits as state; titles say otherwise."""

    kind, stage = "listing", "rank"
    schema = 3

    async def should_process(self, item: Any) -> Any:
        match item.entity["title"]:
            case "unwanted":
                return False
            case "ask slowly":
                await asyncio.sleep(3600)
            case "ask badly":
                raise ValueError("no idea")
            case "ask and die":
                os.kill(os.getpid(), signal.SIGKILL)
        return True

    async def process(self, item: Any) -> Any:
        title = item.entity["title"]
        match title:
            case "poison":
                say("dies", item.id)
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await asyncio.sleep(3600)
            case "fail":
                raise ValueError("it does not fit")
            case "final":
                raise StageProblem("never", code="broken", final=True)
            case "later":
                raise StageProblem("not now", code="busy", retry_after=3600)
            case "quiet":
                return Untouched()
            case "undeclared":
                return Update(note="x")
            case "trace":
                return Untouched(state=item.trace)
            case "timer":
                return Untouched(visit_in=3600)
            case "empty the state":
                return Untouched(state=None)
            case "message":
                state = Struct()
                state.update({"a": 1})
                return Untouched(state=state)
            case "schema":
                return Update(rank=item.state_schema)
            case "fields":
                return Untouched(state={"fields": sorted(item.entity), "crawl": item.crawl})
        visits = (item.state or {}).get("visits", 0) + 1
        return Update(rank=2 * item.entity["price"], state={"visits": visits})

    async def saved(self, event: Any) -> None:
        say("heard", event.id, event.number, event.what, sorted((event.entity or {}).items()))


class Message(ServedStage):
    """Entities as messages: rank = price + 1."""

    kind, stage = "listing", "message"

    async def process(self, item: Any) -> Any:
        found = Listing()
        found.MergeFromString(item.entity.value)
        if found.title == "of another type":
            return Update(Struct(fields={"rank": {"number_value": 1}}))
        return Update(Listing(id=found.id, rank=found.price + 1, price=5))


class Told(ServedCalls):
    """Tells of each call, and answers some titles as nobody should."""

    async def Describe(self, request: v1.DescribeRequest, context: Any) -> v1.DescribeResponse:
        say("Describe", request.kind, request.stage)
        found = await super().Describe(request, context)
        if reads := os.environ.get("READS"):
            found.reads.extend(reads.split())
        found.max_bytes = int(os.environ.get("MAX_BYTES", "0"))
        return found

    async def ShouldProcess(
        self, request: v1.ShouldProcessRequest, context: Any
    ) -> v1.ShouldProcessResponse:
        say("ShouldProcess", *(item.id for item in request.items))
        return await super().ShouldProcess(request, context)

    async def Process(self, request: v1.ProcessRequest, context: Any) -> v1.ProcessResponse:
        say("Process", *(item.id for item in request.items))
        titles = {item.id: item.entity.json for item in request.items}
        for id, body in titles.items():
            for name in ("UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"):
                if f'"{name}"' in body:
                    await context.abort(getattr(grpc.StatusCode, name), f"because of {id}")
        found = await super().Process(request, context)
        for outcome in list(found.outcomes):
            spoil(found, outcome, titles[outcome.id])
        return found

    async def Saved(self, request: v1.SavedRequest, context: Any) -> v1.SavedResponse:
        say("Saved", *(entity.id for entity in request.entities))
        return await super().Saved(request, context)


def spoil(found: v1.ProcessResponse, outcome: v1.Outcome, body: str) -> None:
    """An answer as nobody should give it."""
    if '"missing"' in body:
        found.outcomes.remove(outcome)
    elif '"twice"' in body:
        found.outcomes.append(outcome)
    elif '"unknown id"' in body:
        outcome.id = "nobody"
    elif '"unset"' in body:
        for name in ("untouched", "update", "problem"):
            outcome.ClearField(name)
    elif '"no change"' in body:
        outcome.update.ClearField("change")
    elif '"nul"' in body:
        outcome.update.patch.json = '{"note": "a\\u0000b"}'
    elif '"surrogate"' in body:
        outcome.update.patch.json = '{"note": "a\\ud800b"}'
    elif '"no json"' in body:
        outcome.update.patch.json = '{"note": '
    elif '"no object"' in body:
        outcome.update.patch.json = "[1]"
    elif '"state nul"' in body:
        outcome.state.body.json = '"a\\u0000b"'
    elif '"state unset"' in body:
        outcome.state.body.CopyFrom(body_pb2.Body())
    elif '"far away"' in body:
        outcome.visit_at.seconds = 1 << 60
    elif outcome.update.HasField("mask"):
        outcome.update.mask.CopyFrom(FieldMask(paths=["rank"]))
        if outcome.id == "3":
            outcome.update.ClearField("mask")
    elif '"large answer"' in body:
        outcome.state.body.json = '"' + 17_000_000 * "x" + '"'


def named(name: str) -> Rank:
    found = Rank()
    found.stage = name
    return found


async def main(address: str) -> None:
    serving.ServedCalls = Told  # type: ignore[misc]
    server = StageServer(
        address,
        Rank(),
        Message(),
        *map(named, os.environ.get("STAGES", "").split()),
        token=os.environ.get("TOKEN"),
        cert=os.environ.get("CERT"),
        key=os.environ.get("KEY"),
        ca=os.environ.get("CA"),
    )
    async with server:
        say("serves", server.port)
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
