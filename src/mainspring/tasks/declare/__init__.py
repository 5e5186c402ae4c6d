"""Declaring tasks: the decorator, the signature, the promise of a call.

calls.py      what a type checker knows of a call that a decider records
handle.py     A call that was enqueued: where it is, and what it came to
policy.py     the policy of an actor: when a run is overtaken, whose result counts, when a
              task is given up (P3, P4)
promise.py    what a task called inside a decider gives, and what their errors teach
recording.py  the seam between tasks and processes: who records a call instead of running it
signature.py  typed by the function's own signature, checked at enqueue and again at run
task.py       a function whose calls can be enqueued
wait.py       waiting for the end of something durable: look, pause, look again, through any
              outage
"""
