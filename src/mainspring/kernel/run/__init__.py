"""Running: slots execute the visits that were read, and the buffer chooses the next.

buffer.py      visits that were read and wait for a slot, and the choice of the next one to
               start
current.py     the run that the code at hand belongs to: known in its context, its threads and
               its background tasks
hanging.py     overtaken, or told to end, and still under way
level.py       the visits of one queue and priority that wait in memory, the oldest first
loop_watch.py  whether something keeps the event loop from turning, and which line: an async
               task that never awaits
queue.py       A queue as a worker knows it
run_log.py     what is said of runs (T12): one event at the end of each, with both of its
               times, and one before that of a run that lasts, when it is held
runner.py      slots that execute visits
suspects.py    visits that a dead worker may have been running are started a few at a time
suspended.py   the course of a handler that has suspended, so that a slot can go on with it in
               the run's own context
threads.py     waiting for a thread: a run that was cancelled goes on for as long as its
               thread does
"""
