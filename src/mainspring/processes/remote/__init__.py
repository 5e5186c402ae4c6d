"""Actors that live elsewhere: they pull tasks and settle them by tickets.

answer_line.py  the line of answers: one commit for those that come within a moment
answers.py      what actors elsewhere answer
beating.py      the steps of beats: many in one update
desk.py         the desk of one event loop, of which `app.remote` and the server are made
line.py         the line of waiting pulls: one look holds for all
plain.py        the short form of settling: results alone
places.py       where the rows of held visits lie: hints
pull_rows.py    rows of the statements of pulling
pulling.py      the steps of pulling: statements and judgements, no I/O
remote.py       `app.remote`: pull a task, beat, complete, fail or release it with its ticket
seal.py         the seal of tickets, and the secrets of the installation
hidden.py       what an actor tells, as it is stored: without what its task hides, and encrypted
settling.py     the steps of settling: statements and judgements, no I/O
sleeper.py      somebody who waits for due visits though it is no worker
ticket.py       what an actor elsewhere shows when it beats or answers for a task that it pulled
sql/            the statements that they send, one a file
"""
