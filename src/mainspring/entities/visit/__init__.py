"""Visits of entities: the system asks the stages, a stage runs.

clock.py      the time as a stage's code sees it: the engine's, so that a simulation or a test
              can move it
loader.py     runs that ask in the same moment share their statements
stage_run.py  load, `process`, and hand the result to the save (S13)
system.py     an entity changed, so the stages are asked whether they want it (S15, S21)
sql/          the statements that they send, one a file
"""
