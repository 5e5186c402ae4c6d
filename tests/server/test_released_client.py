"""A client of the last release, made of the protocol as it was released, against today's server; and one of
a release to come, which says more than today's server knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from served_process import Served

RELEASED = Path(__file__).parents[1] / "contract" / "v1_released.binpb"


class ReleasedClient:
    """Calls by the messages of the last release."""

    def __init__(self, served: Served) -> None:
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(RELEASED.read_bytes()).file:
            self._pool.Add(file)
        self._channel = grpc.insecure_channel(served.address)
        self._metadata = (("authorization", f"Bearer {served.token}"),)

    def message(self, name: str) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(f"mainspring.v1.{name}"))

    def call(self, service: str, method: str, more: bytes = b"", **fields: Any) -> Any:
        request = self.message(f"{method}Request")(**fields)
        send = self._channel.unary_unary(f"/mainspring.v1.{service}/{method}")
        answer = send(request.SerializeToString() + more, metadata=self._metadata, timeout=30)
        return self.message(f"{method}Response").FromString(answer)


def test_a_client_of_the_last_release_is_served(served: Served) -> None:
    served.start()
    client = ReleasedClient(served)
    call = {"task": "mail.send", "args_json": json.dumps({"to": "ann"})}

    [handle] = client.call("TaskService", "EnqueueTasks", calls=[call]).handles
    assert handle.is_new
    found = client.call("TaskService", "GetTask", task="mail.send", id=handle.id)
    assert found.state == "waiting"
    assert client.call("TaskService", "CancelTask", task="mail.send", id=handle.id).state


def test_what_a_newer_client_says_beyond_this_release_is_passed_over(served: Served) -> None:
    """A field that nobody here knows; the rest of the request means what it meant."""
    served.start()
    client = ReleasedClient(served)
    call = {"task": "mail.send", "args_json": json.dumps({"to": "ann"})}
    field_1000 = b"\xc2\x3e\x03new"  # number 1000, three bytes of text

    [handle] = client.call("TaskService", "EnqueueTasks", field_1000, calls=[call]).handles
    assert handle.is_new
