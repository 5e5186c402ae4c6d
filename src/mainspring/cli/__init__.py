"""The command line: one file per noun.

main.py         the entry; errors become one line and an exit code
commands.py     the commands by name, each imported when it is given
group.py        a group of commands, and how its help names them
target.py       which application or database is meant
show.py         tables for people, JSON for programs
options.py      options that many commands share
worker.py       `worker` and `dev`; supervisor.py keeps its processes, child.py is one of them
log.py          how events are written
"""
