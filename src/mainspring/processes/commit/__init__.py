"""The decision commit: what one settled run does to its process.

batch.py       the state of one commit: the changes of a batch, what became of each, and the
               visits that they make; the locks that it begins with
change.py      what one settled visit does to its process, worked out before anything is
               written
close.py       promises are closed, who waited goes on, and the last end finishes the process
commit.py      many changes of many processes in one transaction, and what they add: by the
               settler, which calls a writer, or apart from it
external.py    what tasks wait for outside the graph, in a commit: signals, times and child
               processes
sealed.py      what a change keeps of users' values, encrypted; opened in what a task is run with
signals.py     buffered when early, the same id is the same signal (P15)
start.py       four rows in anyone's transaction, nothing locked (P6)
task_input.py  what a task is run with
visits.py      the visits of processes: which queue, key, shard and payload each has
waiting.py     tasks that wait outside the graph: for a signal, a time, a child process
sql/           the statements that they send, one a file
"""
