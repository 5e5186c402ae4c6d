"""Actors that live elsewhere: they pull tasks and settle them by tickets.

pulling.py  the steps of pulling tasks and answering for them: statements and judgements, no
            I/O
remote.py   actors that are not functions of a worker: pull a task, beat, complete or fail it
            with its ticket
ticket.py   what an actor elsewhere shows when it beats, completes or fails a task that it
            pulled
sql/        the statements that they send, one a file
"""
