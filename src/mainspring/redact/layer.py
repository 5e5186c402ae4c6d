"""Redaction as a layer of the worker: its rules are in the database before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.kernel import Layer, QueueSettings, WorkerPort
from mainspring.redact.redactor import Redactor
from mainspring.redact.stored import keep_rules


class RedactionLayer(Layer):
    """The rules of an application that hides something."""

    def __init__(self, worker: WorkerPort, declared: Mapping[str, Redactor]) -> None:
        self._worker = worker
        self._declared = declared

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return ()

    async def open(self) -> None:
        async with self._worker.line().use() as connection:
            await keep_rules(connection, self._declared)
