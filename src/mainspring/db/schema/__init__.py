"""The schema: migrations, functions, the rights of roles, and the dump that a test compares.

dump.py        prints the migrated schema as text: what schema.sql must be
migrate.py     makes and upgrades the schema by numbered files, forward only
migrate_on.py  makes and upgrades it in a caller's transaction
rights.py      the rights of each role, as the SQL that grants them (`mainspring rights`)
"""
