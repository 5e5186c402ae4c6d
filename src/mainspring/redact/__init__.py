"""Redaction: named fields of arguments and results are not shown to operators, in logs or in error texts.

redactor.py    the rule: which fields are hidden, in values and in texts (pure)
stored.py      the rules of all queues, kept in the database: whoever has only its address redacts too
guarded.py     functions whose failures do not tell what is hidden
shown.py       visits and runs as they are shown
layer.py       makes the rules of an application known before its worker runs anything
statements.py  the statements by name

A task declares its fields. Its worker takes their values out of the texts of failures and of progress;
whatever is read for an operator goes through the rule of its queue, so rows of before are hidden too.
What is stored stays as it was: whoever may read the tables reads the values.
"""

from __future__ import annotations

from mainspring.redact.guarded import guarded
from mainspring.redact.redactor import HIDDEN, NOTHING, Redactor, as_redactor
from mainspring.redact.stored import Rules, keep_rules, read_rules

__all__ = [
    "HIDDEN",
    "NOTHING",
    "Redactor",
    "Rules",
    "as_redactor",
    "guarded",
    "keep_rules",
    "read_rules",
]
