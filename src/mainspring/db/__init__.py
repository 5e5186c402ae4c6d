"""The database: how to reach it, how statements are loaded, how the schema is made.

Knows nothing of visits; everything above may import it.

database.py         an address that was checked, and connections to it
idle.py             connections that are kept for the next one who needs them
literals.py         values as text that a statement takes in one argument
pool.py             the application's pool of connections
reconnecting.py     one connection that is opened again when it breaks
sql.py              statements, loaded from files and named by them
steps.py            runs generators of statements on any driver
until_reachable.py  repeats a step until the database is reachable

connect/   one connection, whatever the network does
embedded/  a private PostgreSQL server in a directory of the project
schema/    migrations, functions, rights of roles
"""
