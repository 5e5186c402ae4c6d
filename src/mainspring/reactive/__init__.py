"""Reactive tasks: functions that run when the state of the data says so.

An object of the data platform has params (`values`): named values, mostly "loaded up to". Whoever
changes the data sets them. A task may have a trigger (`triggers`) instead of a cron line: from the
clock, the current values and those that the task saw at its last successful run, it says whether the
event has happened.

Pure, without I/O: values, durations, zones, units, grid, chunks, triggers, evaluate, codec, gates,
rewinds, decide, words, checks, explain. The rest is the thin shell around them.
"""
