"""Who calls, and what he may do.

caller.py     who calls, and the check of each thing that he asks for
callers.py    who a call comes from: by its token or its client certificate
local.py      the token of this machine, in a file of its owner's
scopes.py     what a caller may do, to which names
tokens.py     tokens: made, listed, revoked, found
sql/          the statements, one a file
"""
