"""What an operator asks about entities and orders.

doctor.py    the doctor of kinds: whether every change of their tables is seen
operator.py  what an operator can ask of entities and order, by the kind's name and the id's
             text, without code
outbox.py    what waits for consumers: how many events, and since when
why.py       what is known of one entity: its queues and timers, states, events on their way,
             and who changed what
sql/         the statements that they send, one a file
"""
