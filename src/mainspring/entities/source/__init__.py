"""Where the entities of a kind are: loaded, locked and written.

choose.py    A kind on its table: whether it can stand there, where its entities are, which
             fields can be written
dao.py       entities of a user's own data access object, as the engine loads, locks and
             writes them
loader.py    what visits see: for all of a page before the first of them starts, and for runs
             that ask in the same moment
rows.py      where the entities of a kind are: loaded, locked and written, many in one
             statement
sql/         the statements that they send, one a file
"""
