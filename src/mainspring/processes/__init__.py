"""Processes: dynamic graphs of tasks that survive everything, decided by plain functions.

A *decider* (`@app.process`) runs once, to its end. Calling a task in it records the call and gives a
promise; a promise passed on is an edge. What it decided - value or promise, new tasks, edges - is
committed in one transaction with the end of its own visit. There is no replay, so there are no rules
of determinism.

    decider.py    records the calls of a running decider -> a Decision
    decision.py   what one visit decided, frozen, and whether it may be committed
    arguments.py  arguments with holes where promises were passed, and filling them
    builtin.py    deciders of our own: gather, concat, map, ...

Promises are in tasks/declare/promise.py, because calling a task is what makes them.
"""
