"""Tasks: functions whose calls are durable.

A task is a queue of the kernel; an enqueued call is a visit whose key is its id, or the user's
uniqueness key. Enqueueing inserts the visit; running it decodes the arguments, calls the function
and settles the visit with the result.

    signature.py   arguments: typed by the function, validated at enqueue and at run
    task.py        what @app.task makes, and its options
    enqueue.py     visits from calls: one, many, on anyone's connection
    rows.py        many fresh calls, as COPY takes them
    context.py     what a running task can know and do
    execute.py     the kernel's handler of a task; threads for plain functions
    handle.py      a call that was enqueued: its state and its result
"""
