"""Stages elsewhere, without gRPC: who is sent what, and what a failure means (S10).

asking.py      should_process of stages elsewhere, side by side under one budget
call_line.py   those that wait for one method of one stage
hearing.py     what was saved, for stages elsewhere
items.py       what goes to a stage and what comes back
peer.py        a service with one worker: calls are made up, and what a failed one means is
               carried out
peers.py       the services that a worker calls
remote_run.py  the visit of a stage elsewhere
standing.py    how a service stands with a worker: what may be sent, what a failed call means
"""
