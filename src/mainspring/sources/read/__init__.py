"""Who reads which partition, and until when.

finder.py  finds the partitions that there are, and offers a visit for each
rejects.py records that were put aside and are to be tried again
reader.py  reads one partition for as long as its visit is held
"""
