"""Sinks: where the events of a kind go, after the save, at least once, in order per entity (S7).

    from mainspring.sinks import Kafka

    listing.sink("kafka", Kafka("broker:9092", topic="listings"))

address.py  the addresses of a host, checked
record.py   an event as a CloudEvents record: attributes and data. Pure
kafka.py    records to a topic of Kafka (`mainspring[kafka]`)
nats.py     records to a stream of NATS JetStream (`mainspring[nats]`)
webhook.py  records to a URL, signed as Standard Webhooks (`mainspring[webhook]`)

A sink returns from `send` when the other side has acknowledged the event, never before. It raises
`EndpointAway` where the other side is away: then nothing is sent until `probe` succeeds, and nothing is
counted. It raises `EventRefused` where this event can never be taken: then its entity is parked.
Any other error is tried again, as the sink's `retry` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.sinks.kafka import Kafka
    from mainspring.sinks.nats import Nats
    from mainspring.sinks.record import EventRecord, record_of
    from mainspring.sinks.webhook import Webhook
else:
    __getattr__ = on_demand(
        __name__,
        {"kafka": "Kafka", "nats": "Nats", "record": "EventRecord record_of", "webhook": "Webhook"},
    )

__all__ = ["EventRecord", "Kafka", "Nats", "Webhook", "record_of"]
