"""Paths of HTTP, the calls that they mean, and how the two are translated.

actors.py    routes of actors elsewhere
params.py    routes of params
processes.py routes of processes
route.py     what a route is, and how one is found
states.py    routes of states
table.py     all routes
tasks.py     routes of tasks
values.py    values that several routes share
"""
