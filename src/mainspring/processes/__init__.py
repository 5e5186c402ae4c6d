"""Processes: dynamic graphs of tasks that survive everything, decided by plain functions.

A *decider* (`@app.process`) runs once, to its end. Calling a task in it records the call and gives a
promise; a promise passed on is an edge. What it decided - value or promise, new tasks, edges - is
committed in one transaction with the end of its own visit. There is no replay, so there are no rules
of determinism.

connections.py  the connections that a worker uses for processes
layer.py        processes as a layer of the worker: their queues, handlers and operations
registry.py     the processes and actors that an application has declared
runtime.py      runs deciders and tasks of processes in one worker
statements.py   the statements of all rooms, by name
steps.py        runs generators of statements on a connection

declare/     what users declare and hold: processes, handles, signals
record/      the calls of a running decider become a decision
commit/      a decision and the end of a task become one transaction
structural/  changes of a graph from outside: cancel, undo, deadlines, repair
run/         running tasks of processes, and what is done when a worker died
remote/      tasks that somebody outside completes
operate/     what operators ask and order

Promises are in tasks/declare/promise.py, because calling a task is what makes them.
"""
