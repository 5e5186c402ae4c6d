"""Leases: who owns which shards, who is alive, and what becomes of what the dead held.

bands.py      which queues of a pool have leases of their own while its workers have different
              code
dead.py       a dead worker's row goes, its shards are free, and what it had read is suspect
heart.py      a thread that keeps the worker alive in the eyes of the others
holds.py      the marks in visits' rows that a certain run has them
loop_port.py  what the heart's thread asks of its worker and tells it
parts.py      this worker's part of the limits of queues
recut.py      the ownership of a pool's shards is written down in the bands that its living
              codes need
session.py    A connection of the heart's own: plain calls of the kernel's statements, opened
              again when it breaks
shards.py     which of them this worker has, takes, and gives away
sharing.py    which worker reads which shards
watchdog.py   ends a process whose runs could not be stopped when its lease ends
sql/          the statements that they send, one a file
"""
