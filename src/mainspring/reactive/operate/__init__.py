"""What an operator asks about params and reactive tasks and orders.

doctor.py    the doctor of reactive tasks: whether every firing meets a worker that has its
             task
history.py   past runs of a reactive task, by the name that people know: history has them
             under its pool's queue
operator.py  what an operator can ask about params and reactive tasks, and order them to do
states.py    params and reactive tasks as an operator sees them, and as they are read
why.py       why a task runs or does not: reads what `explain` needs
sql/         the statements that they send, one a file
"""
