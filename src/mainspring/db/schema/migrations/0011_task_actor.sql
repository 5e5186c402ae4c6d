-- Processes are found by a task that few of them have. Rows are changed as cheaply as before: neither column ever is.
create index task_actor on mainspring.task (actor, process_id);
