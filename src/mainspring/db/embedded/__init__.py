"""The embedded server: a private PostgreSQL in a directory of the project.

binaries.py  where they are, and the account that runs them
copied.py    A copy of PostgreSQL's programs that every account can run, for where their own
             place is closed
private.py   what is ours in a place that others reach: directories, files in them, who serves
             a socket
process.py   looking at processes of this machine, waiting for them, keeping them out of each
             other's way
server.py    A private PostgreSQL in a directory of the project, run from the binaries of a
             wheel
shared.py    several processes, one embedded server: who comes first starts it, who goes last
             stops it
"""
