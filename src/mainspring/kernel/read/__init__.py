"""Reading: due visits of this worker's shards come from the database into memory.

intake.py        decides what is read next, and when: looks back, sweeps and sleep
listener.py      listens for notifications, so that an idle worker starts within milliseconds
orders.py        what the intake tells the reader to do
reader.py        reads what the intake says, and brings due visits into the buffer
sql/             the statements that they send, one a file
"""
