"""`mainspring serve`: tasks, params, processes and states for callers in other languages.

access/       who calls, and what he may do
handlers/     what each call does, whatever carried it: messages in, messages out
grpc/         the same over gRPC
extra.py      what is said where the packages of the server are missing
processes.py  several server processes at one address
settings.py   how a server is to be, and the choices that are refused
statements.py the statements, by name
"""
