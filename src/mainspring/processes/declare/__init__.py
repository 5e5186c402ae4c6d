"""What users write: processes, deciders' verbs, handles, versions.

call_off.py     a step of a process ends a part of it, while the rest goes on
decider_api.py  what a decider can say besides calling tasks: wait, join, race, enclose,
                remember
flow.py         choices, loops and reminders without a function of their own for every body
group.py        calls of tasks, and a callback when all of them have ended
handle.py       A process that was started: where it is, what it came to, and messages to it
lock.py         a lock over several steps
process.py      a decider whose calls start processes, and steps inside of one
question.py     signals that are answered: who asks waits for what the process makes of it
races.py        the first end of several promises, the first success, some of many
versions.py     code that changes while processes run: arguments written by an older version
                are brought up
"""
