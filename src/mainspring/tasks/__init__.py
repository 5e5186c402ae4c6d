"""Tasks: functions whose calls are durable.

A task is a queue of the kernel; an enqueued call is a visit whose key is its id, or the user's
uniqueness key. Enqueueing inserts the visit; running it decodes the arguments, calls the function
and settles the visit with the result.

making.py      a task made of a function and of what its decorator was given
hiding.py      what a task hides: its declaration is checked, its notes go through it
layer.py       tasks as a layer of the worker: their queues and their handler
statements.py  the statements of all rooms, by name

declare/  the decorator, the signature, the handle and the promise of a call
keep/     for how long its results and its history are kept
enqueue/  calls become visits, one or many, on anyone's connection
run/      the kernel's handler of a task, its context and its connections
"""
