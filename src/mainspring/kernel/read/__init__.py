"""Reading: due visits of this worker's shards come from the database into memory.

background.py  visits of background priorities (0 to 2) give way while others are about
cursor.py      where each level (a queue and a priority) is read next
listener.py    listens for hints, so that an idle worker starts a new visit within
               milliseconds
reader.py      brings due visits from the database into the buffer
sql/           the statements that they send, one a file
"""
