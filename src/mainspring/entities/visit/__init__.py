"""Visits of entities: the system asks the stages, a stage runs.

stage_run.py  load, `process`, and hand the result to the save (S13)
system.py     an entity changed, so the stages are asked whether they want it (S15, S21)
"""
