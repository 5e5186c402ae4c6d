"""What each call does: messages in, messages out, errors of ours. Nothing here knows what carried it.

actors.py    ActorService
checks.py    the fields of a request as values, or what is wrong with them
methods.py   all calls by name, with their messages
params.py    ParamService
process_pages.py pages of processes
processes.py ProcessService
refusals.py  what the database refuses, as errors of ours
states.py    StateService
statuses.py  which status an error has, and how much of it a caller is told
store.py     the database as handlers see it: a few at once, the others in line
tasks.py     TaskService
waiting.py   one loop that looks for all who wait
sql/         the statements that they send, one a file
"""
