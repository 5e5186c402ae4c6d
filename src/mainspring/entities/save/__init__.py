"""Saving: what stages changed is written with the settle of their runs.

busy.py        entities that are saved too often: what the loop guard cannot see (S16)
conflicts.py   how often a visit met one, and how long it waits before it is run again
loop_guard.py  stages that set each other off without end are found by the values they write
               (S16)
patch.py       what an `Update` changes of an entity: a patch of plain JSON values, checked
               before anybody writes it
rebase.py      a patch that nobody's change has to do with is saved on the newer entity (S6)
rows.py        what a stage run wants to be saved, and the rows that its save writes
saver.py       entity, state, events and offers of many stage runs, in the transaction of
               their settle
summary.py     what history keeps of a run: which fields it changed, and the versions it made
sql/           the statements that they send, one a file
"""
