"""Recording: what a decider calls becomes a decision. Pure.

arguments.py  how a call that was given promises is written down, and later filled; what of a call
              is refused at once
blocks.py       calls that are recorded now and made later, when a value says so
builtin.py    deciders of our own: what they come to follows from their inputs alone, without
              user code
decision.py   what one run of a task came to, as frozen data that can travel as JSON
flow.py       what makes blocks: choices, loops and reminders
map.py        a call for each of many items, made in chunks by hidden deciders
race.py       how many ends of several promises a race waits for, and which count
recorder.py   recording what a decider calls, and making a decision of it
sealed_values.py  values of users, encrypted and opened again
scope_draft.py  a scope while its decider still writes it
"""
