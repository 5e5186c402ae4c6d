"""Running tasks of processes inside a worker, and recovering those whose time is over.

actor.py         actors that are functions of this worker: tasks as workers, and deciders
actor_policy.py  the policy in force for an actor's tasks: its policy as operators
                 have it now (P3, P4, P14)
beats.py         the signs of life that running tasks give of themselves, written a few times
                 a second
context.py       the context of a task that belongs to a process: its own SQL and its
                 decision, in one commit
engine.py        the engine's own visits: looks, timers, cancels, restarts
failed_steps.py  the log of steps that failed for good
recovery.py      recovery of runs whose work timeout has passed: by the policy of their actor
                 (P3, P4)
sql/             the statements that they send, one a file
"""
