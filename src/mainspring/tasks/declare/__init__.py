"""Declaring tasks: the decorator, the signature, the handle and the promise of a call.

batch.py      a function that takes many calls at once
calls.py      the types of a call that a decider records, for type checkers
habits.py     words of other libraries, answered with those of this one
handle.py     a call that was enqueued: its state and its result
options.py    the options of a call
policy.py     an actor's policy: when a run is overtaken, whose result counts, when to give up
progress.py   how far a call is
promise.py    what a task called inside a decider returns, and the errors of its misuse
recording.py  who records a call instead of running it: where processes join in
sealing.py    payloads that are encrypted before they leave the process
signature.py  arguments typed by the function, checked at enqueue and again at run
storable.py   types and values that JSON or PostgreSQL cannot hold
task.py       what `@app.task` makes, and its calls
unique.py     what a call does whose key is taken: policies and outcomes
wait.py       waits for the end of something durable, through any outage
"""
