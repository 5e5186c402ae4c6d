"""Parts of a process that end while the rest goes on: structural changes that are asked for from within.

call_off.py  a task with all that it made, or a scope, is called off
race.py      the first end of several promises, the first success, some of many
sql/         the statements that they send, one a file
"""
