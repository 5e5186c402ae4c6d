"""The schema: migrations, functions, the rights of roles, and the dump that a test compares.

dump.py     the migrated schema as text: `python -m mainspring.db.schema.dump` prints what
            schema.sql must be
migrate.py  made and upgraded by numbered files, forward only
rights.py   the rights of each role, as the SQL that grants them: `mainspring rights` prints
            it, tests attack it
"""
