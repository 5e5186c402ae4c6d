"""What an operator asks about processes and orders.

actors.py     settings of actors as an operator sees and changes them, audited (P14), and what
              was counted of them
asked.py      operations whose items are structural changes: each is asked for by a visit, and
              counted when it ended
bulk.py       operations on many processes: restart parked tasks, restart or cancel processes,
              by a filter (P10)
given.py      values that an operator gives by hand: encrypted, where those of the process are
graph.py      the graph of a process as an operator sees it, and how it is drawn
keys.py       steps that are encrypted with a key which the cipher does not have
operator.py   what an operator can ask of processes: `app.operator.processes`
retention.py  processes that ended long ago are thinned, as old as history is kept
search.py     by type, state, id, time, attributes, error and task; parked ones in groups
settings.py   settings of process types: declared by the code, changed at run time, audited
              (P14)
templates.py  filters that are kept under a name, each with its action and how that is done
why.py        why a process does not go on: a named cause for every idle one (P8)
sql/          the statements that they send, one a file
"""
