"""From outside of the stages: edits, states by compare-and-set, queues of entities.

edit.py        an entity is read, changed and written by code outside the stages, and no
               update is lost
edit_batch.py  one transaction of edits: entities locked, changed by their callers' functions,
               written and offered
queue.py       the queues of a kind, asked and changed directly: offer, check, peek, delete
               (S20)
state.py       A stage's state from outside: read it, and replace it only if nobody did since
               (S11)
sql/           the statements that they send, one a file
"""
