"""Processes: dynamic graphs of tasks that survive everything, decided by plain functions.

A *decider* (`@app.process`) runs once, to its end. Calling a task in it records the call and gives a
promise; a promise passed on is an edge. What it decided - value or promise, new tasks, edges - is
committed in one transaction with the end of its own visit. There is no replay, so there are no rules
of determinism.

    registry.py     process types, signals and versions of an application; starting and looking up
    layer.py        processes as a layer of the kernel
    runtime.py      what one worker has of them: handlers and the writer of decisions
    scheduled.py    processes that schedules start
    connections.py  the connections that the rooms share in a worker
    looking.py      what a caller reads of a process that runs
    statements.py   the statements of all rooms, by name
    declare/        what users write: processes, deciders' verbs, handles, versions
    record/         what a decider calls becomes a decision
    commit/         what one settled run does to its process
    structural/     cancel, restart, checks: one process as a whole
    locks/          locks over several steps: who asks, who has one
    parts/          races, and what is called off while the rest goes on
    run/            tasks of processes inside a worker, and their recovery
    remote/         actors elsewhere pull tasks and settle them by tickets
    operate/        what operators ask and order

Promises are in tasks/declare/promise.py, because calling a task is what makes them.
"""
