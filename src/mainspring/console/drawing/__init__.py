"""Pictures that the server draws, so that pages need no script for them. Pure.

graph     the tasks of a process and who waits for whom
gantt     when each task was made and when it ended
chart     runs of each minute
"""
