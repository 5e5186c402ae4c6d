"""Params, chunks of time and triggers as data. Pure.

chunks.py     half hours, hours, days, weeks, months, quarters, years, any fixed length; in a
              zone
codec.py      how they are stored, so that whoever judges them needs no user code
durations.py  lengths of time as people write them: timedelta, or a text such as "90s", "5m",
              "2d"
gates.py      what holds a true trigger back for a while
grid.py       the chunks of one unit in one zone: when they start, and how many lie between
              two moments
plain.py      triggers by plain names (R16)
triggers.py   from the clock, the current values and those last seen, whether the event has
              happened
units.py      what a chunk of time is on a wall clock: slots that follow each other, numbered
values.py     params and their values: instants, integers, versions
zones.py      clocks of time zones, as spans of one offset each
"""
