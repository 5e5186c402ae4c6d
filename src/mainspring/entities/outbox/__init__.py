"""The outbox: what was saved is brought to hooks and sinks.

relay.py  brings what was saved from the outbox to its consumers (S7)
sql/      the statements that they send, one a file
"""
