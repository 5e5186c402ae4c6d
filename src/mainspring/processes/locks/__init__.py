"""Locks that processes hold over several steps: `with lock("account 7"): ...`.

A lock is a scope whose calls wait for a task of the engine's own, `@lock`. That one asks, and waits
outside like for a signal; who grants it sends the signal. Nothing releases a lock: whether one is held
follows from the scope of its holder (view process_lock_live), so what ends the scope has released it.
Whoever ends one has a look sent after it; who waits looks for himself every half a minute.

claims.py    who holds and who waits, and circles of those who wait for each other
granting.py  the look: drops what does not count any more, and grants to the first in line
sql/         the statements that they send, one a file
"""
