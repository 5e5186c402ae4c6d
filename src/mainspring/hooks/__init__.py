"""Hooks: what an application does around its calls and runs, beside the code of its tasks.

It costs nothing where there is none: who enqueues and who runs looks once whether there are any.

registry.py  what an application declares: `app.hooks`
told.py      what a hook is told of a run, and of its failure
enqueueing.py  what a hook is told of calls
traced.py    the trace of whoever enqueued a call, carried with it
counters.py  counters and histograms of runs
depend.py    what functions need and no payload has, per worker or per run
around.py    the hooks of one worker, around its runs
layer.py     hooks as a layer of the worker: its start, its stop, the runs of stages
"""
