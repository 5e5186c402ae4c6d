"""Types of other libraries among a user's own. None of these libraries is imported for a look.

mapped_types.py     mapped classes of SQLAlchemy's as rows
pydantic_types.py   models of pydantic's in arguments, results, states and rows
"""
