"""Records become effects, and effects one transaction with the offset.

mapping.py    the source's function, record by record, and what is said of a record that it cannot map
batch.py      one transaction: compare and set the offset, then the effects
effects.py    the effects of a batch, many at once: documents, edits, signals, calls, params
call_ids.py   the id of a call, from its record
"""
