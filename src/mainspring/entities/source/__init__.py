"""Where the entities of a kind are: loaded, locked and written.

choose.py    A kind on its table: whether it can stand there, where its entities are, which
             fields can be written
dao.py       entities of a user's own data access object, as the engine loads, locks and
             writes them
prefetch.py  what visits will see, loaded for all of a page before the first of them starts
printing.py  how rows are printed as JSON: the same in every session, so that texts can be
             compared
rows.py      where the entities of a kind are: loaded, locked and written, many in one
             statement
"""
