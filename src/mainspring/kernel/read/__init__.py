"""Reading: due visits of this worker's shards come from the database into memory.

background.py  when visits of background priorities (0 to 2) may be read beside other work
cursor.py      up to where each level (a queue and a priority) was read
listener.py    listens for notifications, so that an idle worker starts within milliseconds
reader.py      decides when to read, and brings due visits into the buffer
sql/           the statements that they send, one a file
"""
