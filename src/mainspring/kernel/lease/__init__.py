"""Leases: who owns which shards, who is alive, and what becomes of what the dead held.

dead.py       declares a worker dead: deletes its row, frees its shards, marks what it had read
doubts.py     stops runs whose visits are said to be gone, if the database says so too
heart.py      the thread that beats, renews the lease and fences the worker when it ends
holds.py      marks in visits' rows that a run has them, so that no one else starts them
loop_port.py  what the heart's thread asks of the event loop and tells it
parts.py      claims this worker's part of the limits of queues
pool_view.py  the pool as the last beat has read it: its workers, leases and bands
recut.py      writes the leases of a pool anew when its bands have changed
shards.py     which shards this worker has, takes and gives away
watchdog.py   ends the process if its runs could not be stopped when the lease ended
sql/          the statements that they send, one a file

What they decide is in mainspring/sharing.
"""
