"""Sources: records of Kafka and NATS have effects in this database, exactly once.

    from mainspring.sources import Enqueue, Kafka, Record

    def to(record: Record) -> Enqueue:
        return Enqueue(charge.bind(**record.json()))

    app.source("orders", Kafka("broker:9092", topic="orders"), to=to)

`docs/design/sources.md` has the protocol.

declare/   a source, its records and their effects
brokers/   clients of Kafka and NATS
apply/     records become effects, and effects one transaction with the offset
read/      who reads which partition, and until when
operate/   questions and orders of operators
layer.py   sources as a layer of the worker
statements.py  the statements of all rooms by name
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.sources.brokers.kafka import KafkaTopic as Kafka
    from mainspring.sources.brokers.nats import NatsFilters as Nats
    from mainspring.sources.declare.broker import (
        BrokerClient,
        OffsetGone,
        RecordBroker,
        RecordChunk,
        RecordStream,
    )
    from mainspring.sources.declare.effects import Advance, Delete, Enqueue, Put
    from mainspring.sources.declare.effects import EditEntity as Edit
    from mainspring.sources.declare.effects import SendSignal as Signal
    from mainspring.sources.declare.record import BrokerRecord as Record
    from mainspring.sources.declare.source import RecordSource
else:
    __getattr__ = on_demand(
        __name__,
        {
            "brokers.kafka": "KafkaTopic:Kafka",
            "brokers.nats": "NatsFilters:Nats",
            "declare.broker": "BrokerClient OffsetGone RecordBroker RecordChunk RecordStream",
            "declare.effects": "Advance Delete EditEntity:Edit Enqueue Put SendSignal:Signal",
            "declare.record": "BrokerRecord:Record",
            "declare.source": "RecordSource",
        },
    )

__all__ = [
    "Advance",
    "BrokerClient",
    "Delete",
    "Edit",
    "Enqueue",
    "Kafka",
    "Nats",
    "OffsetGone",
    "Put",
    "Record",
    "RecordBroker",
    "RecordChunk",
    "RecordSource",
    "RecordStream",
    "Signal",
]
