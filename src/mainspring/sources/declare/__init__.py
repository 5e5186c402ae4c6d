"""What an application declares: a source, its broker, the records that come and the effects they have.

record.py   a record as a source's function gets it
effects.py  what a record may do to this database
source.py   a source with its settings
broker.py   what is asked of a broker's client
"""
