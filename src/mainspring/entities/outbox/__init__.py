"""The outbox: what was saved is brought to hooks and sinks.

events.py       events as rows and as a consumer gets them; what it has taken is deleted
relay.py        brings what was saved from the outbox to its consumers (S7)
send.py         hands the events of an entity to a consumer, one after the other
sql/            the statements that they send, one a file
"""
