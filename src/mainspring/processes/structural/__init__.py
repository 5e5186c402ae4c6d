"""Structural changes: one process as a whole, one transaction.

cancel.py        what is live is called off, what was done is undone, and then it has ended
cancel_many.py   cancelling many processes at once: the children of a tree, or the items of a
                 mass order
change.py        what a restart, a cancel, the end of a scope and a repair have in common
check.py         looking at a process: ends it, delivers errors that are caught by now, ends
                 failed scopes, repairs
compensation.py  which steps are undone, and the tasks that do it, newest first
cone.py          the causal cone of a task: what a restart from it redoes
deadline.py      a task that has not ended in time, counted from its first queueing, ends (P4)
not_run.py       tasks that end without being run, or run again: an input failed, or their
                 time is over
parked.py        parked tasks, at an operator's command: try again, give up, or give a value
                 by hand
prune.py         a loop of tail calls keeps its newest steps, and costs the same for ever
                 (P15)
repair.py        what one transaction makes impossible, and is there all the same (P7)
request.py       the visits by which a process is cancelled, restarted or looked at
restart.py       what is redone, and why it cannot be
sweep.py         open processes whose look was lost get one again (P2, P7)
sql/             the statements that they send, one a file
"""
