"""Saving: what stages changed is written with the settle of their runs.

change.py      what a stage run wants to be saved (a patch, a state), checked before anybody
               writes it, and the rows that its save writes
conflicts.py   how often a visit met one, how long it waits before it is run again, and what is
               none: a patch that can be saved on the newer entity (S6)
loop_guard.py  stages that set each other off without end are found by the values they write,
               entities that are saved too often by a count (S16)
saver.py       entity, state, events and offers of many stage runs, in the transaction of
               their settle
sql/           the statements that they send, one a file
"""
