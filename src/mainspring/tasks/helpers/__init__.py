"""Helpers: processes of a worker's own, in which functions with `executor="process"` run.

A helper imports the user's module itself, and runs one function after another. It is never a fork of its
worker. Arguments and results travel as JSON, as they are stored. Whatever becomes of a helper, its worker
goes on: the run that it had is a failed attempt.

failure.py   an exception of a helper, as its worker raises it
helper.py    one helper, as its worker sees it
helpers.py   all of a worker's: started ahead, used again, replaced; the kernel's handler of their tasks
inside.py    what a helper itself does: `python -m mainspring.tasks.helpers.inside`
messages.py  what a worker and its helper tell each other
places.py    where a function is found by whoever must import it
within.py    a run as it is seen from within a helper: its context, its end, its memory
"""
