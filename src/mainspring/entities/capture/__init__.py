"""Capture: how a change of an entity becomes known.

announce.py  changes that are announced by a call, in the writer's own transaction: what
             `capture="call"` rests on
triggers.py  the triggers that see every change of a user's table: which there must be, and
             the SQL that makes them
sql/         the statements that they send, one a file
"""
