"""The outbox: what was saved is brought to hooks and sinks.

acknowledge.py  deletes what a consumer has, in the transaction that settles its run
events.py       events as their rows have them, and as one consumer gets them
relay.py        brings what was saved from the outbox to its consumers (S7)
send.py         hands the events of an entity to a consumer, one after the other
sql/            the statements that they send, one a file
"""
