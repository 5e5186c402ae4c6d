"""The embedded server: a private PostgreSQL in a directory of the project.

binaries.py  finds PostgreSQL's programs and the account that runs them
copied.py    copies the programs to where every account can run them
private.py   makes sure that directories, files and sockets are ours
process.py   looks at processes of this machine, waits for them, ends them
server.py    makes, starts and stops the server
shared.py    several processes use one server: the first starts it, the last stops it
"""
