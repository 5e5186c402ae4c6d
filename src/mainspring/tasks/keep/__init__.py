"""For how long results and history of a task are kept, where its declaration says so.

retention.py  the rules as the database has them, and the chore that drops what is old
"""
