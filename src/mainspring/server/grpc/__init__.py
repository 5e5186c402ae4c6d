"""The services over gRPC.

calls.py     one call: bytes in, bytes out, errors as statuses
health.py    grpc.health.v1: alive, and whether the database answers
server.py    the server: its address, its limits, its beginning and end
"""
