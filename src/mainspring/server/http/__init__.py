"""The services over HTTP: JSON for web developers, and the same calls in Connect's way.

accept.py    media types
answer.py    how an answer is written
app.py       the ASGI application: one request from its first line to its answer
connect.py   the same calls in Connect's way
openapi.py   the OpenAPI document, which is kept in openapi.json
places.py    what is asked besides the calls: alive, ready, metrics, the description
problems.py  errors as problem+json
protocol.py  one connection: how long a request may take, who a certificate names
request.py   a request as ASGI brings it
routes/      paths, the calls that they mean, and how the two are translated
server.py    the server: its address, its limits, its beginning and end
"""
