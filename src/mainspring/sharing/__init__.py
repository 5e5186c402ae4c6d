"""How workers share the shards of a pool: pure decisions, no I/O; nothing here knows what a visit is.

shares.py  who is dead, what I take, what I give
bands.py   which queues need leases of their own while workers of a pool differ in code
tuning.py  the constants, with their reasons

The kernel's room lease/ reads, carries these out and writes. tests/model/mixed_protocol.py walks them.
"""
