"""The services over gRPC.

calls.py     one call: who, how long, how many at once, and errors as statuses
health.py    grpc.health.v1: alive, and whether the database answers
server.py    the server: its address, its limits, its beginning and end
"""
