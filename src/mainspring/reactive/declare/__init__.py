"""What users declare and call: tasks with triggers, params and their advances.

advance.py   params set forward: what an application does with them, and its statements
context.py   what a running reactive task can know and do
declare.py   objects of the data platform and their params, and tasks that react to them
params.py    params made, moved back, and whom that affects
register.py  what the code declares becomes definitions, index and first checks in the
             database
task.py      a function that runs when the state of data says so
sql/         the statements that they send, one a file
"""
