"""`mainspring serve`: tasks, params, processes and states for callers in other languages.

access/       who calls, and what he may do
certificate.py  its certificate, and whether there is a renewed one
console.py    the console below /console, and who is let in there
counts.py     how many calls were answered, and how long they took
door.py       one server process: its transports, its beginning and end
extra.py      what is said where the packages of the server are missing
grpc/         the services over gRPC
handlers/     what each call does, whatever carried it: messages in, messages out
http/         the services over HTTP
listening.py  the sockets it listens on, and what is said where one cannot be had
processes.py  several server processes at one address
readiness.py  whether the database has answered of late
reception.py  one call, whatever carried it: who, how long, how many at once
settings.py   how a server is to be, and the choices that are refused
sql/          the statement that asks whether the database answers
statements.py the statements, by name
"""
