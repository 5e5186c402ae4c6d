"""The database: how to reach it, how statements are loaded, how the schema is made.

Knows nothing of visits; everything above may import it.
"""
