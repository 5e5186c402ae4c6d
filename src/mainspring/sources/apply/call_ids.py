"""The id of a call, from its record: the same however often the record is read.

It is a UUID of version 7: the record's own time, the low bits of its offset, then a digest of its place. So
calls lie and run in the order of their records, and history is looked up in the days since then.
"""

from __future__ import annotations

from hashlib import blake2b

from mainspring.sources.declare.record import BrokerRecord

_TIME = (1 << 48) - 1
_VARIANT = 1 << 63


def call_id(source: str, record: BrokerRecord, number: int) -> str:
    """The id of a record's call of this number."""
    place = f"{source}\0{record.partition}\0{record.offset}\0{number}".encode()
    drawn = int.from_bytes(blake2b(place, digest_size=6).digest(), "big") >> 2
    time, offset = f"{record.time_ms & _TIME:012x}", record.offset
    rest = f"{_VARIANT | (offset & 0xFFFF) << 46 | drawn:016x}"
    return f"{time[:8]}-{time[8:]}-7{offset >> 16 & 0xFFF:03x}-{rest[:4]}-{rest[4:]}"
